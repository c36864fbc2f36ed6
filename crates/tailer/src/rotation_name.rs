//! Names of rotated files.
//!
//! Programs that rotate files append a number or a date to the name (`app.log.1`, `app.log-20240131`), or insert it before the
//! extension (`app-1.log`), and may compress the file (`app.log.1.gz`).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A way of compression, known by the end of the file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
}

/// Ends of names of compressed files that are not read.
const UNSUPPORTED: [&[u8]; 7] = [b".bz2", b".xz", b".lz4", b".lzma", b".zip", b".Z", b".br"];

impl Compression {
    pub(crate) fn of(name: &OsStr) -> Option<Self> {
        let name = name.as_bytes();
        if name.ends_with(b".gz") {
            Some(Self::Gzip)
        } else if name.ends_with(b".zst") {
            Some(Self::Zstd)
        } else {
            None
        }
    }
}

/// Whether the file is compressed in a way that is not read.
pub(crate) fn is_unsupported(name: &OsStr) -> bool {
    UNSUPPORTED.iter().any(|end| name.as_bytes().ends_with(end))
}

/// How a rotated file is named after its original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RotationName {
    /// The number, if the name has one and not a date; a higher one is an older file.
    pub(crate) number: Option<u64>,
    /// Whether number or date stand before the extension.
    pub(crate) is_inserted: bool,
}

/// How the file `name` is named after `original`, if it is.
pub(crate) fn rotation_of(original: &OsStr, name: &OsStr) -> Option<RotationName> {
    let (original, plain) = (original.as_bytes(), without_compression(name.as_bytes()));
    if let Some(suffix) = plain.strip_prefix(original) {
        let is_only_compressed = suffix.is_empty() && plain.len() < name.len();
        let is_rotated = is_only_compressed || is_suffix(suffix);
        return is_rotated.then(|| RotationName { number: number(suffix), is_inserted: false });
    }
    let (stem, extension) = split_extension(original)?;
    let suffix = plain.strip_prefix(stem)?.strip_suffix(extension)?;
    is_suffix(suffix).then(|| RotationName { number: number(suffix), is_inserted: true })
}

/// The name without everything that rotation adds; equal for a file and its rotated ones.
pub(crate) fn family(name: &OsStr) -> OsString {
    let name = without_suffix(without_compression(name.as_bytes()));
    let family = match split_extension(name) {
        Some((stem, extension)) => [without_suffix(stem), extension].concat(),
        None => name.to_vec(),
    };
    OsString::from_vec(family)
}

fn without_compression(name: &[u8]) -> &[u8] {
    name.strip_suffix(b".gz").or_else(|| name.strip_suffix(b".zst")).unwrap_or(name)
}

/// The name without its longest suffix; a name is never empty.
fn without_suffix(name: &[u8]) -> &[u8] {
    let at = (1..name.len()).find(|at| is_suffix(name.get(*at..).unwrap_or_default()));
    at.and_then(|at| name.get(..at)).unwrap_or(name)
}

/// The name before its last dot, and the rest.
fn split_extension(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = name.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0)?;
    name.split_at_checked(at)
}

/// Whether the text is a separator followed by a number or date, or by `old`.
fn is_suffix(text: &[u8]) -> bool {
    let [b'.' | b'-' | b'_', rest @ ..] = text else { return false };
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'_' | b':' | b'T' | b'Z' | b'+');
    rest == b"old" || (rest.first().is_some_and(u8::is_ascii_digit) && rest.iter().all(is_part))
}

/// The number of a suffix. Six digits and more are a date.
fn number(suffix: &[u8]) -> Option<u64> {
    let digits = suffix.get(1..).filter(|digits| digits.len() < 6)?;
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(original: &str, name: &str, want: Option<(Option<u64>, bool)>) {
        let found = rotation_of(OsStr::new(original), OsStr::new(name));
        assert_eq!(found.map(|found| (found.number, found.is_inserted)), want, "{name}");
        if want.is_some() {
            assert_eq!(family(OsStr::new(name)), family(OsStr::new(original)), "{name}");
        }
    }

    #[test]
    fn rotated_names_are_recognised() {
        let appended = |name, number| check("app.log", name, Some((number, false)));
        appended("app.log.1", Some(1));
        appended("app.log.12.gz", Some(12));
        appended("app.log-20240131", None);
        appended("app.log.2024-01-31.zst", None);
        appended("app.log-20240131-1706700000.gz", None);
        appended("app.log.old", None);
        appended("app.log.gz", None);
        check("app.log", "app-1.log", Some((Some(1), true)));
        check("app.log", "app-2024-01-31T00-00-00.000.log.gz", Some((None, true)));
        check("app.log", "app.1.log", Some((Some(1), true)));
        check("0.log", "0.log.20240131-120000", Some((None, false)));
        check("0.log", "0.log.20240131-120000.gz", Some((None, false)));
        check("log", "log.1", Some((Some(1), false)));
    }

    #[test]
    fn other_names_are_not() {
        for name in [
            "app.log",
            "app.log.bak",
            "app2.log",
            "application.log",
            "app.log.1x",
            "app.log.",
            "xapp.log.1",
            "app",
            "app.log.xz",
        ] {
            check("app.log", name, None);
        }
        check("0.log", "1.log", None);
        check("a", "", None);
    }

    #[test]
    fn families() {
        let check = |name: &str, want: &str| assert_eq!(family(OsStr::new(name)), OsStr::new(want), "{name}");
        check("app-2024-01-31.log.1.gz", "app.log");
        check("0.log", "0.log");
        check(".1", ".1");
        check("10.0.0.1.log", "10.log");
        check("", "");
    }
}
