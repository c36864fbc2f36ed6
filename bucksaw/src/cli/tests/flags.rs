//! Bad values of flags, and the values that help texts name.

use clap::{Arg, ArgAction, Command as Tree};

use super::super::parse;
use super::tree;
use crate::argument_error::describe;

const BAD_VALUES: [&str; 12] =
    ["", " ", "x", "-", "-1", "1.5.5", "99999999999999999999999", "1e999", "0x10", "ä", "a b", "\u{1}"];

/// What parsers of libraries say. None of it tells a user what to do.
const PARSER_PHRASES: [&str; 16] = [
    "invalid digit",
    "invalid float",
    "invalid value",
    "cannot parse",
    "empty string",
    "not in 0..",
    "not in 1..",
    "out of range",
    "too large to fit",
    "number too",
    "was not a boolean",
    "a value is required",
    "invalid port",
    "invalid uri",
    "possible values",
    "tip:",
];

fn taking_values(command: &Tree) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append))
}

fn words(command: &str, arguments: &[String]) -> Vec<std::ffi::OsString> {
    ["bucksaw", command].into_iter().map(Into::into).chain(arguments.iter().map(Into::into)).collect()
}

#[test]
fn an_error_of_a_flag_says_what_was_wrong_and_what_to_do() {
    let tree = tree();
    let (mut refused, mut errors) = (0, Vec::new());
    for command in tree.get_subcommands() {
        let (name, shown) = (command.get_name(), format!("bucksaw {}", command.get_name()));
        for arg in taking_values(command).filter(|arg| arg.get_id() != "config") {
            for value in BAD_VALUES {
                let long = arg.get_long();
                let argument =
                    long.map_or(vec!["--".to_owned(), value.to_owned()], |long| vec![format!("--{long}={value}")]);
                let parsed = super::super::tree().tree.try_get_matches_from(words(name, &argument));
                let Err(error) = parsed else { continue };
                refused += 1;
                let said = describe(&error, Some(&shown));
                let found = PARSER_PHRASES.iter().find(|phrase| said.to_lowercase().contains(*phrase));
                let is_named = long.is_none_or(|long| said.contains(&format!("--{long}")));
                let is_line = !said.contains('\n') && said.len() < 400;
                if found.is_some() || !is_line || !is_named && !said.contains(" needs ") {
                    errors.push(format!("{shown} --{} {value:?}: {said}", long.unwrap_or("-")));
                }
            }
        }
    }
    assert!(refused > 300, "only {refused} values are refused");
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

/// The values that a help text names: `such as 15m, 2h30m or 7d`.
fn named_values(help: &str) -> Vec<String> {
    let mut values = Vec::new();
    let paragraphs: Vec<String> = help.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
    for rest in paragraphs.iter().flat_map(|paragraph| paragraph.split("such as ").skip(1)) {
        let (quoted, list) = match rest.strip_prefix('\'').and_then(|rest| rest.split_once('\'')) {
            Some((quoted, _)) => (Some(quoted.to_owned()), ""),
            None => (None, rest),
        };
        values.extend(quoted);
        let end =
            [";", ". ", ")", " for ", " that "].iter().filter_map(|end| list.find(end)).min().unwrap_or(list.len());
        let list = list[..end].replace(", or ", ",").replace(" or ", ",");
        values.extend(
            list.split(',').map(|value| value.trim().trim_matches('`').to_owned()).filter(|value| !value.is_empty()),
        );
    }
    values
}

#[test]
fn values_are_found_in_help_texts() {
    assert_eq!(named_values("x, such as 15m, 2h30m or 7d; or none"), ["15m", "2h30m", "7d"]);
    assert_eq!(named_values("such as '{a} {b}' has"), ["{a} {b}"]);
    assert_eq!(named_values("nothing"), [""; 0]);
}

#[test]
fn every_value_that_a_help_text_names_is_accepted() {
    let tree = tree();
    let mut checked = 0;
    for command in tree.get_subcommands() {
        for arg in taking_values(command) {
            let Some(long) = arg.get_long() else { continue };
            for help in [arg.get_help(), arg.get_long_help()].into_iter().flatten() {
                for value in named_values(&help.to_string()) {
                    let parsed = super::super::tree()
                        .tree
                        .mut_subcommands(|sub| sub.mut_args(|arg| arg.required(false)))
                        .try_get_matches_from(words(command.get_name(), &[format!("--{long}={value}")]));
                    assert!(parsed.is_ok(), "bucksaw {} --{long}={value}: {parsed:?}", command.get_name());
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 30, "only {checked} values are named");
}

#[test]
fn every_form_of_a_time_is_accepted() {
    for time in [
        "now",
        "now-1h",
        "15m",
        "15m ago",
        "today",
        "yesterday",
        "10:30",
        "1.5h",
        "2026-11-20",
        "2026-11-20 23:10",
        "2026-11-20T23:10:00Z",
        "1795216200",
    ] {
        for flag in ["--since", "--from", "--to"] {
            assert!(parse(words("query", &[format!("{flag}={time}")])).is_ok(), "{flag} {time}");
        }
    }
}
