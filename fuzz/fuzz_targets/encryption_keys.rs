//! Files of encryption keys: any bytes are keys or an error. An error shows no part of a key.
#![no_main]
use bucksaw_crypt::{KEYS_MAX, KeyList};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match KeyList::parse(data) {
        Ok(keys) => {
            let ids = keys.ids();
            assert!((1..=KEYS_MAX).contains(&ids.len()));
            assert!(ids.iter().enumerate().all(|(at, id)| !ids[..at].contains(id)), "a key is there twice");
        }
        Err(error) => {
            let message = error.to_string();
            let lines = data.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line.trim_ascii()).ok());
            assert!(lines.filter(|line| line.len() >= 32).all(|line| !message.contains(line)));
        }
    }
});
