//! Errors as people see them: one line on standard error that says what was wrong and what to do.

use std::env;
use std::io::{self, IsTerminal, Write};

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::Exit;
use crate::layers;
use crate::print::{self, Colour};

/// The command was used wrongly, in a way that the argument parser cannot see. Always ends with [`Exit::Trouble`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Whoever read standard output is gone, as `head` goes when it has enough. Ends with [`Exit::Done`], silently.
#[derive(Debug, thiserror::Error)]
#[error("the reader of standard output is gone")]
pub(crate) struct PipeClosed;

/// The arguments do not fit the command.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct ArgumentError {
    /// What the parser says; also that help or the version was asked for.
    pub(crate) error: clap::Error,
    /// The command as typed, as far as it was understood: `bucksaw query`.
    pub(crate) command: String,
}

/// Tells an error and gives the exit code for it: `otherwise` when the error is of no kind with a code of its own.
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

/// Says something on standard error. Control characters from outside are shown and not sent to the terminal.
pub(crate) fn print_error(message: &str) {
    let mut line = Colour::of(&io::stderr()).bold_red("bucksaw:");
    line.push(b' ');
    print::sanitise(message.as_bytes(), &mut line);
    line.push(b'\n');
    // When even standard error is gone there is nobody left to tell.
    let _ = io::stderr().write_all(&line);
}

/// Help and version are asked for and no errors; all else becomes one line.
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
        print_error(&one_line(&error.render().to_string(), from_environment(error, command).as_deref(), command));
    }
    Exit::Trouble
}

/// The variable that a refused value came from, if it is the value of one.
fn from_environment(error: &clap::Error, command: &str) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else { return None };
    let long = argument.strip_prefix("--")?.split([' ', '=', '[']).next()?;
    let variable = layers::variable(command.trim_start_matches("bucksaw "), long);
    let given = env::var(&variable).ok()?;
    given.split(',').any(|part| part == value).then_some(variable)
}

/// The parser's message of several paragraphs as `what was wrong: what to do`.
fn one_line(rendered: &str, variable: Option<&str>, command: &str) -> String {
    let mut paragraphs = rendered.split("\n\n");
    let joined = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line = joined(paragraphs.next().unwrap_or_default());
    if let Some(rest) = line.strip_prefix("error: ") {
        line = rest.to_owned();
    }
    if let Some(variable) = variable {
        line.push_str(" (from the environment variable ");
        line.push_str(variable);
        line.push(')');
    }
    let lines = paragraphs.flat_map(str::lines);
    let mut tips: Vec<String> = lines.filter_map(|line| line.trim().strip_prefix("tip: ")).map(str::to_owned).collect();
    if tips.is_empty() {
        tips.push(format!("see '{command} --help'"));
    }
    format!("{line}: {}", tips.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_become_a_line() {
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
