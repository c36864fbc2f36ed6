//! Errors of the argument parser in one line: the problem and the remedy.
//!
//! The messages of `clap` are replaced: they suggest `-- -A` for an unknown letter, and report "invalid digit found in
//! string" for a number.

use std::env;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::one_line::one_line;

/// Commands whose argument is an expression, which may start with `-`.
const TAKING_EXPRESSIONS: [&str; 5] =
    ["bucksaw query", "bucksaw tail", "bucksaw fields", "bucksaw labels", "bucksaw histogram"];

/// The error of the arguments of a command such as `bucksaw query`; `None` for a single value of a file.
pub(crate) fn describe(error: &clap::Error, command: Option<&str>) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    let name = command.unwrap_or("bucksaw");
    let help = match command {
        Some(command) => format!(": see '{command} --help'"),
        None => String::new(),
    };
    let argument = text(ContextKind::InvalidArg).unwrap_or_default();
    // `--output <FORMAT>` as `--output`, and the name of a positional argument without brackets.
    let flag = argument.split([' ', '=']).next().unwrap_or_default().trim_matches(['<', '>', '[', ']', '.']).to_owned();
    let value = text(ContextKind::InvalidValue).unwrap_or_default();
    let origin = command.and_then(|command| variable_of(&flag, &value, command));
    let origin = origin.map(|variable| format!(" (from the environment variable {variable})")).unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let given = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            match text(ContextKind::SuggestedSubcommand) {
                Some(near) => format!("{name} has no command {given}: did you mean {near}?"),
                None => format!("{name} has no command {given}{help}"),
            }
        }
        ErrorKind::UnknownArgument => match (argument.starts_with('-'), text(ContextKind::SuggestedArg)) {
            (true, Some(near)) => {
                let near = near.split([' ', '=']).next().unwrap_or_default().to_owned();
                format!("{name} has no flag {flag}: did you mean {near}?")
            }
            (true, None) if !flag.starts_with("--") && TAKING_EXPRESSIONS.contains(&name) => {
                format!("{name} has no flag {flag}{help}; before an expression that starts with - put -e")
            }
            (true, None) => format!("{name} has no flag {flag}{help}"),
            // As of `query -n 5 'one two'`: -n takes no value, so 5 is the expression.
            (false, _) if argument.contains(char::is_whitespace) => {
                format!("unexpected argument '{argument}' after the last one that {name} takes{help}")
            }
            (false, _) => {
                format!("unexpected argument '{argument}': quote an argument of several words, as in {name} 'one two'")
            }
        },
        ErrorKind::MissingRequiredArgument => {
            format!("{name} needs {}{help}", argument.replace(['<', '>'], ""))
        }
        ErrorKind::MissingSubcommand => format!("{name} needs a command{help}"),
        ErrorKind::ArgumentConflict => match text(ContextKind::PriorArg) {
            Some(prior) if prior == argument => format!("{flag} is given twice: omit one of them"),
            Some(prior) => format!("both {flag} and {prior} are given: omit one of them"),
            None => format!("{flag} is given twice: omit one of them"),
        },
        ErrorKind::InvalidValue | ErrorKind::ValueValidation if value.is_empty() && origin.is_empty() => {
            match reason(error) {
                Some(reason) => format!("{flag} '': {reason}{help}"),
                None => format!("{flag} needs a value{}{help}", possible(error, " of ")),
            }
        }
        ErrorKind::InvalidValue => format!("{flag} '{value}'{origin}: expected{}{help}", possible(error, " ")),
        ErrorKind::ValueValidation => {
            let reason = reason(error).unwrap_or_else(|| "this is no valid value".to_owned());
            format!("{flag} '{value}'{origin}: {reason}{help}")
        }
        ErrorKind::NoEquals | ErrorKind::WrongNumberOfValues | ErrorKind::TooFewValues => {
            format!("{flag} needs a value{help}")
        }
        ErrorKind::TooManyValues => format!("{flag} takes no value: '{value}' is too much{help}"),
        ErrorKind::InvalidUtf8 => format!("an argument is not UTF-8{help}"),
        _ => format!("{}{help}", first_paragraph(&error.render().to_string())),
    }
}

/// The message of the parser of a value.
fn reason(error: &clap::Error) -> Option<String> {
    std::error::Error::source(error).map(|source| one_line(&source.to_string()))
}

/// The values that a flag takes, if they are a list.
fn possible(error: &clap::Error, before: &str) -> String {
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(values)) if !values.is_empty() => {
            let (last, others) = values.split_last().map_or(("", &[][..]), |(last, others)| (last.as_str(), others));
            match others.is_empty() {
                true => format!("{before}{last}"),
                false => format!("{before}{} or {last}", others.join(", ")),
            }
        }
        _ => String::new(),
    }
}

/// The environment variable that holds a refused value, if one does.
fn variable_of(flag: &str, value: &str, command: &str) -> Option<String> {
    let long = flag.strip_prefix("--")?;
    let variable = crate::variable::variable(command.trim_start_matches("bucksaw").trim_start(), long);
    let set = env::var(&variable).ok()?;
    set.split(',').any(|part| part == value).then_some(variable)
}

/// The first paragraph of a message of the parser, as one line.
fn first_paragraph(rendered: &str) -> String {
    let first = rendered.split("\n\n").next().unwrap_or_default();
    let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").map_or(line.clone(), str::to_owned)
}
