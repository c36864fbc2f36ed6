//! Retired words are not used; `docs/glossary.md` has the terms in their place.

use crate::source_files::{files, repository, short};

/// File types that are checked.
const EXTENSIONS: [&str; 6] = ["rs", "md", "ts", "tsx", "toml", "yml"];

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

/// Former words and phrases of comments, messages and documents, each with the term in use, in lower case. A line matches
/// in either case.
const PHRASES: [(&str, &str); 22] = [
    ("goodbye", "leave"),
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

/// Whether `line` contains `word` with no letter or digit on either side. An underscore is a boundary, so a part of an
/// identifier matches.
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
        let line = if ignore_case { line.to_lowercase() } else { line.to_owned() };
        for (retired, term) in words.iter().filter(|(word, _)| contains_word(&line, word)) {
            found.push(format!("{name}:{number}: \"{retired}\" is retired; write: {term}"));
        }
    }
    found
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
