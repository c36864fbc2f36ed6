//! Prints an error as one line on standard error: the problem and the remedy.

use std::io::{self, IsTerminal, Write};

use clap::error::ErrorKind;

use crate::argument_error;
use crate::exit::Exit;
use crate::print::{self, Colour, PipeClosed};

/// Wrong usage that the argument parser does not detect; ends with [`Exit::Trouble`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// The arguments are invalid for the command, or request help or the version.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct ArgumentError {
    pub(crate) error: clap::Error,
    /// The command as typed, as far as it is known: `bucksaw query`.
    pub(crate) command: String,
}

/// Prints an error and returns its exit code, `otherwise` if its kind has none.
pub(crate) fn report_error(error: &anyhow::Error, otherwise: Exit) -> Exit {
    if error.is::<PipeClosed>() {
        return Exit::Done;
    }
    if let Some(ArgumentError { error, command }) = error.downcast_ref() {
        return report_arguments(error, command);
    }
    print_error(&format!("{error:#}"));
    if error.is::<UsageError>() { Exit::Trouble } else { otherwise }
}

/// Prints a line to standard error, with control characters escaped.
pub(crate) fn print_error(message: &str) {
    let mut line = Colour::of(&io::stderr()).bold_red(b"bucksaw:");
    line.push(b' ');
    print::sanitise(message.as_bytes(), &mut line);
    line.push(b'\n');
    // A closed standard error leaves no place to report it.
    let _ = io::stderr().write_all(&line);
}

/// Prints help and the version to standard output, and errors as one line.
fn report_arguments(error: &clap::Error, command: &str) -> Exit {
    if !error.use_stderr() {
        return match error.print() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Exit::Failed,
            _ => Exit::Done,
        };
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let rendered = error.render();
        let shown = if io::stderr().is_terminal() { rendered.ansi().to_string() } else { rendered.to_string() };
        let _ = io::stderr().write_all(shown.as_bytes());
    } else {
        print_error(&argument_error::describe(error, Some(command)));
    }
    Exit::Trouble
}
