//! Unusable data directories, full disks, damaged files and foreign files.

mod changed;
mod clock;
mod damage;
mod encryption;
mod foreign_files;
mod full;
mod mounted;
mod refused;
mod small;
mod start_full;
mod unwritable;

use std::fs;
use std::path::{Path, PathBuf};

use bucksaw_faults::Random;

use crate::node::TestServer;

/// The store's files with this extension, by name and so by time.
fn store_files(node: &TestServer, extension: &str) -> Vec<PathBuf> {
    files(&node.dir().join("store"), extension)
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|have| have == extension)).collect();
    files.sort_unstable();
    files
}

/// Damages the first block of a segment, and its parity.
fn corrupt_block(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let record = bytes.windows(4).position(|window| window == b"BSWR").unwrap();
    bytes[40..=record].iter_mut().for_each(|byte| *byte ^= 0x20);
    fs::write(path, bytes).unwrap();
}

/// Flips a bit of the byte at `at`; negative from the end.
fn flip_bit(path: &Path, at: i64) {
    let mut bytes = fs::read(path).unwrap();
    let at = if at < 0 { bytes.len() - at.unsigned_abs() as usize } else { at as usize };
    bytes[at] ^= 0x20;
    fs::write(path, bytes).unwrap();
}

/// 400 incompressible lines, each with the number of the batch.
fn noise(number: usize, random: &mut Random) -> Vec<u8> {
    let line = |_| {
        let words: Vec<String> = (0..8).map(|_| format!("{:016x}", random.next_u64())).collect();
        format!("batch{number} {}\n", words.join("")).into_bytes()
    };
    (0..400).flat_map(line).collect()
}
