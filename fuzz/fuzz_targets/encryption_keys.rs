//! Files of encryption keys: any bytes are keys, or an error that names a line of the file.
#![no_main]
use bucksaw_crypt::{KEYS_MAX, KeyList, KeyListError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match KeyList::parse(data) {
        Ok(keys) => {
            let ids = keys.ids();
            assert!((1..=KEYS_MAX).contains(&ids.len()));
            assert!(ids.iter().enumerate().all(|(at, id)| !ids[..at].contains(id)), "a key is there twice");
        }
        Err(KeyListError::Invalid { line }) => {
            let line = data.split(|byte| *byte == b'\n').nth(line - 1).expect("a line of the file");
            assert!(!line.trim_ascii().is_empty());
        }
        Err(_) => {}
    }
});
