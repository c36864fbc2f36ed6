//! The texts of the tests.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, fs};

use bucksaw_generate::{Config, Generator, SampleFormat};

/// A text, and its name, a valid label value.
pub(crate) type NamedText = (String, Vec<u8>);

/// The files of the directory in `BUCKSAW_CORPUS`; generated texts if it is unset or empty.
pub(crate) fn corpus() -> Vec<NamedText> {
    corpus_of(env::var_os("BUCKSAW_CORPUS"))
}

fn corpus_of(variable: Option<OsString>) -> Vec<NamedText> {
    variable.filter(|dir| !dir.is_empty()).map_or_else(generated, |dir| files(dir.into()))
}

fn files(dir: PathBuf) -> Vec<NamedText> {
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("cannot read {}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    paths.sort_unstable();
    assert!(!paths.is_empty(), "there is no file in {}", dir.display());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
}

fn generated() -> Vec<NamedText> {
    let mut texts = Vec::new();
    for seed in 0..8_u16 {
        for (format, kind) in [(SampleFormat::Text, "text"), (SampleFormat::Json, "json")] {
            let size = (seed % 2 == 1).then(|| 60 << (seed / 2));
            texts.push((format!("{kind}-{seed}.log"), lines(Config { format, size, seed: seed.into() }, 2_000)));
        }
    }
    texts
}

/// `count` lines, 0.1 s apart.
pub(crate) fn lines(config: Config, count: u64) -> Vec<u8> {
    const START_MS: u64 = 1_700_000_000_000;
    let mut generator = Generator::new(config, START_MS);
    let mut text = Vec::new();
    for line in 0..count {
        generator.append_line(&mut text, START_MS + 100 * line);
    }
    text
}

#[test]
fn an_empty_variable_counts_as_unset() {
    assert_eq!(corpus_of(Some(OsString::new())), corpus_of(None));
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("one.log"), "a line\n").unwrap();
    assert_eq!(corpus_of(Some(dir.path().into())), [("one.log".to_owned(), b"a line\n".to_vec())]);
}
