//! A file of the agent's buffer: any bytes are opened, read to the end and appended to.
#![no_main]
use std::path::Path;
use std::sync::Arc;

use bucksaw_buffer::{Config, DiskBuffer, NewBatch};
use bucksaw_env::{Fs as _, sim};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (fs, dir) = (sim::Fs::new(), Path::new("/b"));
    fs.create_dir_all(dir).unwrap();
    bucksaw_env::replace(&fs, &dir.join("0000000000000000.buffer"), &[data]).unwrap();
    let (mut buffer, recovery) = DiskBuffer::open(Arc::new(fs), dir, Config::default()).unwrap();
    let mut read = 0;
    while buffer.read_next().unwrap().is_some() {
        read += 1;
    }
    assert!(read <= recovery.unacked_batches);
    let batch = NewBatch { state: b"s", labels: b"l", frame: b"f", records: 1 };
    if buffer.append(&batch, Vec::new).is_ok() {
        assert_eq!(buffer.read_next().unwrap().map(|batch| batch.frame), Some(b"f".to_vec()));
    }
});
