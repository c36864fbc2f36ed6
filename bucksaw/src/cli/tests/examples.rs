//! Every command line in help texts and documents is valid.

use std::path::Path;

use super::super::{Command, parse};
use super::{all, tree};
use crate::expression::RecordRules;
use crate::values::DisplayZone;

/// Words of a shell: quotes are removed, and `|`, `<`, `>` and `&` end or redirect a command.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    let mut word: Option<String> = None;
    let mut skips_next = false;
    let mut chars = line.chars().peekable();
    let end_word = |word: &mut Option<String>, words: &mut Vec<String>, skips_next: &mut bool| {
        if let Some(word) = word.take()
            && !std::mem::take(skips_next)
        {
            words.push(word);
        }
    };
    while let Some(char) = chars.next() {
        match char {
            '\'' | '"' => {
                let text: String = chars.by_ref().take_while(|next| *next != char).collect();
                word.get_or_insert_default().push_str(&text);
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '#' if word.is_none() => break,
            '<' | '>' => {
                // `2>/dev/null`
                if word.as_deref() == Some("2") {
                    word = None;
                }
                end_word(&mut word, &mut words, &mut skips_next);
                skips_next = true;
            }
            '|' | ';' | '&' | ')' => {
                end_word(&mut word, &mut words, &mut skips_next);
                commands.push(std::mem::take(&mut words));
            }
            char if char.is_whitespace() => end_word(&mut word, &mut words, &mut skips_next),
            '(' if word.is_none() => {}
            char => word.get_or_insert_default().push(char),
        }
    }
    end_word(&mut word, &mut words, &mut skips_next);
    commands.push(words);
    commands.retain(|words| words.first().is_some_and(|first| first == "bucksaw" || first.ends_with("/bucksaw")));
    commands
}

#[test]
fn commands_are_found_in_a_line() {
    let check = |line: &str, want: &[&[&str]]| assert_eq!(commands(line), want, "{line}");
    check("bucksaw query 'a b' -c  # text", &[&["bucksaw", "query", "a b", "-c"]]);
    check("echo 'x | y' | ./target/release/bucksaw forward < app.log", &[&["./target/release/bucksaw", "forward"]]);
    check("cat a | bucksaw forward & bucksaw status 2>/dev/null", &[&["bucksaw", "forward"], &["bucksaw", "status"]]);
    check("nothing of bucksaw", &[]);
}

/// The command lines in blocks of code and between backticks or quotes of a document.
fn lines(document: &str) -> Vec<String> {
    let joined = document.replace("\\\n", " ");
    let mut lines = Vec::new();
    let (mut is_code, mut is_console) = (false, false);
    for line in joined.lines() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            (is_code, is_console) = (!is_code, kind == "console");
        } else if is_code {
            let command = if is_console { line.strip_prefix("$ ") } else { Some(line) };
            lines.extend(command.map(str::to_owned));
        } else {
            for quote in ['`', '\''] {
                let quoted = line.split(quote).skip(1).step_by(2).filter(|text| text.starts_with("bucksaw "));
                // An abbreviation, or the name of a key that is derived from the cluster secret.
                let is_command = |text: &&str| !text.contains('…') && !text.starts_with("bucksaw cluster ");
                lines.extend(quoted.filter(is_command).map(str::to_owned));
            }
        }
    }
    lines
}

/// Checks a command without running it.
fn check(words: &[String], place: &str) {
    let line = words.join(" ");
    let words = std::iter::once("bucksaw".into()).chain(words.iter().skip(1).map(Into::into));
    let (command, _) = match parse(words.collect()) {
        Ok(parsed) => parsed,
        Err(error) => {
            let shown = error.to_string();
            // Names such as ID stand for values, and a command alone is named, not shown.
            let is_named = ["COMMAND", "ID", "DIR", "SHELL", "required"].iter().any(|name| shown.contains(name));
            assert!(is_named, "{place}: {line}: {shown}");
            return;
        }
    };
    let pattern = match &command {
        Command::Query(args) => Some(&args.pattern),
        Command::Tail(args) => Some(&args.pattern),
        _ => None,
    };
    let is_shown_error = line.contains("level= error");
    if let Some(pattern) = pattern.filter(|_| !is_shown_error) {
        assert!(RecordRules::build(pattern).is_ok(), "{place}: {line}");
    }
    if let Command::Query(args) = &command {
        let range = args.window.parameters(bucksaw_record::Millis(1_800_000_000_000), &DisplayZone::utc());
        assert!(range.is_ok(), "{place}: {line}: {range:?}");
    }
}

#[test]
fn every_example_in_the_help_is_valid() {
    let tree = tree();
    let mut checked = 0;
    for command in all(&tree) {
        let texts = [command.get_about(), command.get_long_about(), command.get_after_help()];
        let arguments = command.get_arguments().flat_map(|arg| [arg.get_help(), arg.get_long_help()]);
        for text in texts.into_iter().chain(arguments).flatten() {
            for line in lines(&text.to_string()) {
                for words in commands(&line) {
                    check(&words, command.get_name());
                    checked += 1;
                }
            }
        }
    }
    assert!(checked >= 5, "only {checked} examples");
}

#[test]
fn every_example_in_the_documents_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut documents = vec![root.join("README.md")];
    let listed = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    documents.extend(listed.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    let mut checked = 0;
    for path in documents {
        let text = std::fs::read_to_string(&path).unwrap();
        for words in lines(&text).iter().flat_map(|line| commands(line)) {
            check(&words, &path.display().to_string());
            checked += 1;
        }
    }
    assert!(checked > 40, "only {checked} examples");
}

#[test]
fn the_arguments_of_the_manifest_are_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/kubernetes/bucksaw-forward.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let (_, rest) = text.split_once("args:\n").unwrap();
    let (arguments, _) = rest.split_once("env:\n").unwrap();
    let arguments = arguments.lines().filter_map(|line| line.trim().strip_prefix("- ")).map(str::to_owned);
    let words: Vec<String> = std::iter::once("bucksaw".to_owned()).chain(arguments).collect();
    assert!(words.len() > 5, "{words:?}");
    check(&words, "contrib/kubernetes/bucksaw-forward.yaml");
}
