//! Detects whether the machine was booted since the queue was last opened.
//!
//! Closed segments are not synced before they are renamed. After a power cut a closed segment may lack its end, which `fast`
//! permits; without a power cut that is damage. The file `boot` has the boot id of the operating system under which the queue
//! was last opened.

use std::io;
use std::path::Path;

use bucksaw_env::{Env, read_file};
use tracing::debug;

use crate::queue_file::remove_file;

const NAME: &str = "boot";

/// The number of hexadecimal digits in the file.
const DIGITS: usize = 32;

/// The maximum size that is read, in bytes.
const BYTES_MAX: u64 = 64;

/// Whether unsynced writes of the last run may be missing.
pub(crate) fn may_have_lost_writes(env: &Env, dir: &Path) -> bool {
    let Some(current) = env.fs.boot_id() else { return true };
    read(env, dir).ok() != Some(format_boot_id(current))
}

/// Records the boot id, and returns whether it is recorded now. To be called after recovery: before that, files of an earlier
/// boot must not count as files of this one.
pub(crate) fn record_boot(env: &Env, dir: &Path) -> bool {
    let Some(current) = env.fs.boot_id() else { return true };
    let text = format_boot_id(current);
    let is_recorded = read(env, dir).is_ok_and(|recorded| recorded == text);
    let written = if is_recorded { Ok(()) } else { write(env, dir, &text) };
    if let Err(error) = &written {
        debug!(%error, "cannot record the boot id; retrying. Until then an incomplete segment counts as torn by a power cut");
    }
    written.is_ok()
}

fn format_boot_id(boot: u128) -> String {
    format!("{boot:032x}\n")
}

/// Whether these bytes are the file, or a prefix of it as left by a crash.
pub(crate) fn is_valid_prefix(bytes: &[u8]) -> bool {
    let (digits, end) = bytes.split_at(bytes.len().min(DIGITS));
    digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) && (end.is_empty() || end == b"\n")
}

fn read(env: &Env, dir: &Path) -> io::Result<String> {
    let bytes = read_file(&*env.fs, &dir.join(NAME), BYTES_MAX)?.unwrap_or_default();
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Neither synced nor atomic: a torn file has no boot id, which is the safe direction.
fn write(env: &Env, dir: &Path, text: &str) -> io::Result<()> {
    let path = dir.join(NAME);
    remove_file(env, &path)?;
    env.fs.create(&path)?.append(&[text.as_bytes()])
}

#[cfg(test)]
mod tests {
    use bucksaw_env::{Fs as _, sim};
    use bucksaw_fixtures::GoldenFiles;

    use super::*;

    #[test]
    fn the_file_format_matches_its_fixture() {
        let files = GoldenFiles::new(env!("CARGO_MANIFEST_DIR"), 1);
        let boot = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
        files.check("boot", format_boot_id(boot).as_bytes());
        for fixture in files.read_all("boot") {
            let fs = sim::Fs::new();
            fs.create(Path::new("/boot")).unwrap().append(&[&fixture]).unwrap();
            let (clock, entropy) = (sim::Clock::at_unix_ms(0), sim::Entropy::seeded(1));
            let env = Env {
                fs: std::sync::Arc::new(fs),
                clock: std::sync::Arc::new(clock),
                entropy: std::sync::Arc::new(entropy),
            };
            assert_eq!(read(&env, Path::new("/")).unwrap(), format_boot_id(boot));
            assert!(is_valid_prefix(&fixture));
        }
    }

    #[test]
    fn only_prefixes_of_the_file_are_valid() {
        let whole = format_boot_id(0xabc);
        (0..=whole.len()).for_each(|end| assert!(is_valid_prefix(&whole.as_bytes()[..end])));
        for other in ["g", "A", "0123\n", &whole.replace('\n', "0"), &format!("{whole}\n")] {
            assert!(!is_valid_prefix(other.as_bytes()), "{other:?}");
        }
    }
}
