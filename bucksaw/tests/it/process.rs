//! Starts the program without the caller's environment.
#![expect(clippy::disallowed_methods, reason = "starts the program itself")]

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use tempfile::NamedTempFile;

/// The program with these arguments.
pub(crate) fn bucksaw<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bucksaw"));
    // The width of help texts, and the zone of times.
    command.args(arguments).env_clear().env("COLUMNS", "100").env("TZ", "UTC").stdin(Stdio::null());
    command
}

/// Exit code and output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl CommandOutput {
    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.out).unwrap()
    }
}

/// Runs a command until it ends.
pub(crate) fn run(command: &mut Command) -> CommandOutput {
    let Output { status, stdout, stderr } = command.output().unwrap();
    CommandOutput { code: status.code(), out: stdout, err: String::from_utf8(stderr).unwrap() }
}

/// Runs the program with these words.
pub(crate) fn words(words: &str) -> CommandOutput {
    run(&mut bucksaw(words.split_whitespace()))
}

/// A temporary file with this text.
pub(crate) fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}
