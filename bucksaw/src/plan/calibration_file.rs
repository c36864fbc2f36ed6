//! Calibrations as TOML files.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use bucksaw_capacity::Calibration;

/// The costs that are used if the user names none.
const BUILT_IN: &str = include_str!("default-calibration.toml");

/// Longest file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The built-in calibration.
pub(crate) fn built_in_calibration() -> anyhow::Result<Calibration> {
    parse(BUILT_IN).context("the built-in calibration cannot be used")
}

/// Reads a file that [`save`] wrote.
pub(super) fn load(path: &Path) -> anyhow::Result<Calibration> {
    let read = || {
        let mut text = String::new();
        fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        anyhow::Ok(text)
    };
    let text = read().with_context(|| format!("--calibration: cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("--calibration: {} cannot be used", path.display()))
}

/// Writes a calibration; an existing file is replaced.
pub(super) fn save(calibration: &Calibration, path: &Path) -> anyhow::Result<()> {
    let text = toml::to_string(calibration).context("the calibration cannot be written as TOML")?;
    fs::write(path, text).with_context(|| format!("--save-calibration: cannot write {}", path.display()))
}

fn parse(text: &str) -> anyhow::Result<Calibration> {
    // The whole error has several lines.
    let read = |error: toml::de::Error| anyhow!("{}", error.message());
    // First, because another version has other fields.
    if let Some(version) = text.parse::<toml::Table>().map_err(read)?.get("version").and_then(toml::Value::as_integer) {
        Calibration::check_version(u32::try_from(version).unwrap_or(u32::MAX))?;
    }
    let calibration: Calibration = toml::from_str(text).map_err(read)?;
    calibration.check()?;
    Ok(calibration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_calibration_has_every_kind_of_question() {
        let calibration = built_in_calibration().unwrap();
        for kind in bucksaw_capacity::QuestionKind::ALL {
            assert!(calibration.question(kind).is_some(), "{kind}");
        }
    }

    #[test]
    fn calibrations_come_back_from_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let calibration = built_in_calibration().unwrap();
        save(&calibration, file.path()).unwrap();
        assert_eq!(load(file.path()).unwrap(), calibration);
    }

    #[test]
    fn files_that_are_no_calibration_are_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let check = |text: &str, want: &str| {
            fs::write(file.path(), text).unwrap();
            let error = format!("{:#}", load(file.path()).unwrap_err());
            assert!(error.contains(want), "{error}");
        };
        check("", "missing field");
        check("version = [", "cannot be used");
        check("version = 2\n", "version 2");
        check(&BUILT_IN.replace(&format!("version = {}", Calibration::VERSION), "version = 9"), "version 9");
        check(&BUILT_IN.replace("variation = ", "variation = -"), "not a number of at least 0");
        check(&format!("unknown = 1\n{BUILT_IN}"), "unknown field");
        assert!(load(Path::new("/nonexistent/file")).is_err());
    }
}
