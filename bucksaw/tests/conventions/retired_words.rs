//! Retired words are not used; `docs/glossary.md` has the terms in their place.

use crate::source_files::{files, repository, short};

/// File types that are checked.
const EXTENSIONS: [&str; 11] = ["rs", "md", "ts", "tsx", "toml", "yml", "sh", "css", "html", "json", "Makefile"];

/// Files that may contain retired words: the history of changes, and this list.
const EXEMPT_FILES: [&str; 2] = ["CHANGELOG.md", "bucksaw/tests/conventions/retired_words.rs"];

/// Former names of types and modules, each with the term in use. Upper and lower case matter.
const IDENTIFIERS: [(&str, &str); 7] = [
    ("Haul", "FetchedBatch"),
    ("Inhabitant", "a node of a test cluster"),
    ("SideColumns", "RowMeta"),
    ("Stretch", "slice"),
    ("Town", "test cluster"),
    ("farewell", "leave, graceful close"),
    ("underkept", "under-replicated"),
];

/// Words that no name of a type, function, method or module may contain: each is a retired name or a part of one.
const NAME_WORDS: [&str; 30] = [
    "asker",
    "blow",
    "borders",
    "debt",
    "door",
    "doubt",
    "elsewhere",
    "farewell",
    "fellow",
    "guest",
    "guide",
    "handover",
    "heirs",
    "judged",
    "lane",
    "lent",
    "minder",
    "parting",
    "plant",
    "purse",
    "relief",
    "shelf",
    "sides",
    "spares",
    "speller",
    "stranger",
    "town",
    "turns",
    "twins",
    "weave",
];

/// Names of functions in which a word of [`NAME_WORDS`] is plain English.
const EXEMPT_NAMES: [&str; 2] = [
    "dropping_a_call_ends_it_on_both_sides",
    "key_files_of_earlier_runs_are_removed_only_after_their_entries_are_durable_elsewhere",
];

/// Former words and phrases of comments, messages and documents, each with the term in use, in lower case. A line matches
/// in either case.
const PHRASES: [(&str, &str); 26] = [
    ("door", "interface"),
    ("farewell", "leave, graceful close"),
    ("goodbye", "leave"),
    ("hand over", "fetch, ack"),
    ("handed over", "fetched, acknowledged"),
    ("haul", "batch"),
    ("heirs", "failover targets"),
    ("hindered", "blocked"),
    ("hindrance", "repair blocker"),
    ("inhabitant", "a node of a test cluster"),
    ("made good", "re-replicated"),
    ("nobody", "no node, no client"),
    ("purse", "token bucket"),
    ("set aside", "quarantined"),
    ("shelves", "segment stores"),
    ("so long as", "while, as long as"),
    ("so many", "a number, with its unit"),
    ("somebody", "a client, a node, a task"),
    ("stranger", "incompatible peer"),
    ("told", "reported"),
    ("told of", "reported, known"),
    ("town", "test cluster"),
    ("twin", "duplicate node id"),
    ("twins", "duplicate node id"),
    ("weave", "materialise"),
    ("whoever", "the node, the caller"),
];

/// Whether `line` contains `word` with no letter or digit on either side. An underscore is a space, so parts of identifiers
/// match.
fn contains_word(line: &str, word: &str) -> bool {
    let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    line.match_indices(word)
        .any(|(at, _)| !letter(line[..at].chars().next_back()) && !letter(line[at + word.len()..].chars().next()))
}

#[test]
fn a_word_matches_between_boundaries_only() {
    assert!(contains_word("a Town of nodes", "Town"));
    assert!(contains_word("records_made_good: u64", "made_good"));
    assert!(!contains_word("Townsend", "Town"));
    assert!(!contains_word("a town", "Town"));
}

/// The retired words of one file, a line each.
fn retired_words(name: &str, text: &str, words: &[(&str, &str)], ignore_case: bool) -> Vec<String> {
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = if ignore_case { line.to_lowercase().replace('_', " ") } else { line.to_owned() };
        for (retired, term) in words.iter().filter(|(word, _)| contains_word(&line, word)) {
            found.push(format!("{name}:{number}: \"{retired}\" is retired; write: {term}"));
        }
    }
    found
}

/// The words of a name in snake or camel case, in lower case.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() {
            words.push(String::new());
        }
        words.last_mut().unwrap().extend(letter.to_lowercase().filter(|letter| *letter != '_'));
    }
    words
}

/// The names that a line of Rust defines.
fn defined_names(line: &str) -> impl Iterator<Item = &str> {
    let words: Vec<&str> =
        line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    let defines = |word: &str| matches!(word, "fn" | "struct" | "enum" | "trait" | "type" | "mod");
    (1..words.len()).filter_map(move |at| defines(words[at - 1]).then_some(words[at])).collect::<Vec<_>>().into_iter()
}

#[test]
fn names_are_divided_into_words() {
    assert_eq!(words_of("SegmentShelf"), ["", "segment", "shelf"]);
    assert_eq!(words_of("public_door"), ["public", "door"]);
    assert_eq!(defined_names("pub(crate) fn open_door(&self) {").collect::<Vec<_>>(), ["open_door"]);
}

#[test]
fn names_contain_no_retired_word() {
    let mut errors = Vec::new();
    for path in files(repository(), &["rs"]) {
        if EXEMPT_FILES.contains(&short(&path).as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with("//")) {
            for name in defined_names(line).filter(|name| !EXEMPT_NAMES.contains(name)) {
                if let Some(word) = words_of(name).iter().find(|word| NAME_WORDS.contains(&word.as_str())) {
                    errors.push(format!("{}:{number}: `{name}` contains the retired word \"{word}\"", short(&path)));
                }
            }
        }
    }
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

#[test]
fn retired_words_are_not_used() {
    let mut errors = Vec::new();
    for path in files(repository(), &EXTENSIONS) {
        let name = short(&path);
        if EXEMPT_FILES.contains(&name.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        errors.extend(retired_words(&name, &text, &IDENTIFIERS, false));
        errors.extend(retired_words(&name, &text, &PHRASES, true));
    }
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}
