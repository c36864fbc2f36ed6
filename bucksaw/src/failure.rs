//! Errors as one line on standard error that says what went wrong and what to do.

use std::env;
use std::io::{self, IsTerminal, Write};

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::Exit;
use crate::layers;
use crate::print::{self, Colour, PipeClosed};

/// Wrong usage that the argument parser cannot see; ends with [`Exit::Trouble`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// The arguments do not fit the command, or ask for help or the version.
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
        print_error(&one_line(&error.render().to_string(), variable_of(error, command).as_deref(), command));
    }
    Exit::Trouble
}

/// The environment variable that holds a refused value, if one does.
fn variable_of(error: &clap::Error, command: &str) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else { return None };
    let long = argument.strip_prefix("--")?.split([' ', '=', '[']).next()?;
    let variable = layers::variable(command.trim_start_matches("bucksaw "), long);
    let set = env::var(&variable).ok()?;
    set.split(',').any(|part| part == value).then_some(variable)
}

/// The parser's message as `what was wrong: what to do`.
fn one_line(rendered: &str, variable: Option<&str>, command: &str) -> String {
    let mut line = layers::first_paragraph(rendered);
    if let Some(variable) = variable {
        line.push_str(&format!(" (from the environment variable {variable})"));
    }
    let tips: Vec<&str> = rendered.lines().filter_map(|line| line.trim().strip_prefix("tip: ")).collect();
    match tips.is_empty() {
        true => format!("{line}: see '{command} --help'"),
        false => format!("{line}: {}", tips.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_the_parser_becomes_one_line() {
        let check = |rendered: &str, want: &str| assert_eq!(one_line(rendered, None, "bucksaw q"), want);
        check(
            "error: unexpected argument '--fro' found\n\n  tip: a similar argument exists: '--from'\n\nUsage: bucksaw q\n",
            "unexpected argument '--fro' found: a similar argument exists: '--from'",
        );
        check(
            "error: the following required arguments were not provided:\n  <DIR>\n\nUsage: bucksaw verify <DIR>\n",
            "the following required arguments were not provided: <DIR>: see 'bucksaw q --help'",
        );
        check("error: odd", "odd: see 'bucksaw q --help'");
        assert!(
            one_line("error: odd", Some("BUCKSAW_X"), "")
                .starts_with("odd (from the environment variable BUCKSAW_X): ")
        );
    }
}
