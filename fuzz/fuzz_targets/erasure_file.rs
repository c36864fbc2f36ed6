//! Files of erasures, plain and encrypted: changed and hostile content is an erasure or an error.
#![no_main]
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bucksaw_crypt::{EncryptedFs, KeyList, KeyRing};
use bucksaw_env::{Fs as _, backed_up_file, replace, sim};
use bucksaw_record::Id;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [kind, data @ ..] = data else { return };
    let id = Id::from_bits(7);
    let keys = KeyList::parse("01".repeat(32).as_bytes()).expect("a key");
    let ring = KeyRing::new(keys, Arc::new(sim::Entropy::seeded(1)));
    let fs = EncryptedFs::new(Arc::new(sim::Fs::new()), Arc::new(ring));
    let dir = Path::new("/erasures");
    fs.create_dir_all(dir).expect("a directory");
    let path = dir.join(format!("{id}.json"));
    // Hostile content under the right key, or any bytes.
    let content = match kind & 1 {
        0 => data.to_vec(),
        _ => {
            let name = [&b"BSWERASE"[..], &id.bits().to_le_bytes()].concat();
            let cipher = fs.keys().and_then(|keys| keys.writer(&name)).expect("a cipher");
            let encrypted = STANDARD.encode(cipher.encrypt(&[], &[data]).expect("a part"));
            format!("{{\"version\":2,\"encrypted\":\"{encrypted}\"}}").into_bytes()
        }
    };
    // With a backup of the right checksum, without one, or as a backup.
    match kind & 6 {
        0 => backed_up_file::write(&fs, &path, &content).expect("a file and its backup"),
        2 => replace(&fs, &path, &[&content]).expect("a file"),
        _ => replace(&fs, &backed_up_file::backup_path(&path), &[&content]).expect("a backup"),
    }
    let reports = bucksaw_store::offline_repair::check_erasures(&fs, dir).expect("a list of files");
    assert_eq!(reports.len(), 1);
});
