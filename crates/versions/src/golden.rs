//! Files of what versions wrote: `tests/fixtures/<kind>-<version>.json`, or `.hex` for what is no JSON.
//!
//! A file is there for the version in which the bytes came to be what they are, and is good for all later ones until they
//! change. `MAKE_FIXTURES=1` makes one where the bytes have changed and the version was raised; none is ever changed.
#![expect(clippy::panic, reason = "a test fails by a panic")]
#![expect(clippy::disallowed_methods, reason = "files of the project itself")]

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use crate::hex;

/// What versions wrote, of one crate.
#[derive(Debug)]
pub struct GoldenFiles {
    dir: PathBuf,
    version: FixtureVersion,
    creates_missing: bool,
}

/// Major and minor; of formats without a minor one, that is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FixtureVersion(u32, u32);

impl GoldenFiles {
    /// The files of a crate (`CARGO_MANIFEST_DIR`), when it writes this version.
    ///
    /// # Panics
    /// When that is no version, `1` or `1.2`.
    #[must_use]
    pub fn new(crate_dir: &str, version: impl Display) -> Self {
        let text = version.to_string();
        let Some(version) = FixtureVersion::parse(&text) else { panic!("{text} is no version") };
        let makes = std::env::var_os("MAKE_FIXTURES").is_some();
        Self { dir: Path::new(crate_dir).join("tests/fixtures"), version, creates_missing: makes }
    }

    /// Holds what is written today against what is kept.
    ///
    /// # Panics
    /// When these are other bytes than this version writes, or a version that changed them is not kept.
    pub fn check(&self, kind: &str, written: &[u8]) {
        let newest = self.files(kind).pop();
        let (version, kind_dir) = (self.version, self.dir.display());
        match newest {
            Some((of, bytes)) if bytes == written => {
                assert!(of <= version, "{kind} is kept of {of:?}, which is to come");
            }
            Some((of, _)) if of >= version => panic!(
                "{kind} is written otherwise than in version {}.{}: raise the version, then make a file of it with \
                 MAKE_FIXTURES=1; the bytes now:\n{}",
                of.0,
                of.1,
                Self::render(written).1
            ),
            _ if self.creates_missing => self.create(kind, written),
            _ => panic!("{kind_dir} has no {kind} of version {}.{}: MAKE_FIXTURES=1 makes one", version.0, version.1),
        }
    }

    /// What each version wrote, the oldest first.
    ///
    /// # Panics
    /// When nothing is kept of this kind, or what is cannot be read.
    #[must_use]
    pub fn read_all(&self, kind: &str) -> Vec<Vec<u8>> {
        let files = self.files(kind);
        assert!(!files.is_empty(), "{} has no {kind}", self.dir.display());
        files.into_iter().map(|(_, bytes)| bytes).collect()
    }

    fn create(&self, kind: &str, written: &[u8]) {
        let (ending, text) = Self::render(written);
        let path = self.dir.join(format!("{kind}-{}.{}.{ending}", self.version.0, self.version.1));
        let made = fs::create_dir_all(&self.dir).and_then(|()| fs::write(&path, text));
        made.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    fn render(bytes: &[u8]) -> (&'static str, String) {
        let is_json = serde_json::from_slice::<serde_json::Value>(bytes).is_ok_and(|value| value.is_object());
        match str::from_utf8(bytes) {
            Ok(text) if is_json => ("json", format!("{text}\n")),
            _ => ("hex", hex::write(bytes)),
        }
    }

    fn files(&self, kind: &str) -> Vec<(FixtureVersion, Vec<u8>)> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut files: Vec<(FixtureVersion, Vec<u8>)> = entries
            .filter_map(|entry| {
                let (path, name) = (entry.path(), entry.file_name().into_string().ok()?);
                let (stem, ending) = name.rsplit_once('.')?;
                let version = FixtureVersion::parse(stem.strip_prefix(kind)?.strip_prefix('-')?)?;
                let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let bytes = match ending {
                    "json" => Some(text.strip_suffix('\n').unwrap_or(&text).as_bytes().to_vec()),
                    "hex" => hex::read(&text),
                    _ => return None,
                };
                Some((version, bytes.unwrap_or_else(|| panic!("{} is no hex", path.display()))))
            })
            .collect();
        files.sort();
        files
    }
}

impl FixtureVersion {
    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
        Some(Self(major.parse().ok()?, minor.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn bytes_change_only_with_the_version() {
        let dir = tempfile::tempdir().unwrap();
        let kept = |version: &str, makes| GoldenFiles { creates_missing: makes, ..GoldenFiles::new(dir.path().to_str().unwrap(), version) };
        let holds = |kept: GoldenFiles, bytes: &[u8]| catch_unwind(AssertUnwindSafe(|| kept.check("a", bytes))).is_ok();
        assert!(!holds(kept("1.0", false), b"x"), "nothing is kept");
        assert!(holds(kept("1.0", true), b"x"));
        assert!(holds(kept("1.0", false), b"x") && holds(kept("1.10", false), b"x"));
        assert!(!holds(kept("1.0", false), b"y") && !holds(kept("1.0", true), b"y"), "and is not changed");
        assert!(!holds(kept("1.10", false), b"{}"), "the new ones are to be kept, too");
        assert!(holds(kept("1.10", true), b"{}"));
        assert!(holds(kept("1.10", false), b"{}") && !holds(kept("1.9", false), b"{}"), "10 is more than 9");
        assert!(!holds(kept("1.11", false), b"x"), "and there is no way back");
        assert_eq!(kept("1.10", false).read_all("a"), [b"x".to_vec(), b"{}".to_vec()]);
        let other = GoldenFiles::new(dir.path().to_str().unwrap(), "1.0");
        assert!(catch_unwind(|| other.read_all("b")).is_err());
    }
}
