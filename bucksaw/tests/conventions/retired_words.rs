//! Words that the project no longer uses do not come back: see `docs/glossary.md` for the terms in their place.

use crate::source_files::{files, repository, short};

/// File types that are checked.
const EXTENSIONS: [&str; 6] = ["rs", "md", "ts", "tsx", "toml", "yml"];

/// Files that may contain retired words: the history of changes, and this list.
const EXEMPT_FILES: [&str; 2] = ["CHANGELOG.md", "bucksaw/tests/conventions/retired_words.rs"];

/// Former names of types and modules, each with the term in use. Upper and lower case matter.
const IDENTIFIERS: [(&str, &str); 7] = [
    ("Haul", "FetchedBatch"),
    ("Inhabitant", "TestNode"),
    ("SideColumns", "RowMeta"),
    ("Stretch", "slice"),
    ("Town", "TestCluster"),
    ("farewell", "leave, graceful close"),
    ("underkept", "under-replicated"),
];

/// Former phrases of comments, messages and documents, each with the term in use, in lower case. A line matches in either
/// case.
const PHRASES: [(&str, &str); 1] = [("so long as", "while, as long as")];

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

#[test]
fn retired_words_are_not_used() {
    let mut found = Vec::new();
    for path in files(repository(), &EXTENSIONS) {
        let name = short(&path);
        if EXEMPT_FILES.contains(&name.as_str()) {
            continue;
        }
        for (line, number) in std::fs::read_to_string(&path).unwrap().lines().zip(1..) {
            let identifiers = IDENTIFIERS.iter().filter(|(word, _)| contains_word(line, word));
            let lower_case = line.to_lowercase();
            let phrases = PHRASES.iter().filter(|(phrase, _)| contains_word(&lower_case, phrase));
            for (retired, term) in identifiers.chain(phrases) {
                found.push(format!("{name}:{number}: \"{retired}\" is retired; write: {term}"));
            }
        }
    }
    assert!(found.is_empty(), "{} retired words:\n{}", found.len(), found.join("\n"));
}
