//! Links in documents are valid, the files in ARCHITECTURE.md and CONTRIBUTING.md exist, and each type named with a file is defined
//! in it.

use crate::source_files::{files, repository, short};

/// The texts in backticks of one line.
fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a text is the name of a type: a capital letter first, then letters of both cases.
fn is_type_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.contains(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Adds what is wrong with the files and types that a document names to `errors`. Returns the number of types with a file.
fn check_names(document: &str, errors: &mut Vec<String>) -> usize {
    let text = std::fs::read_to_string(repository().join(document)).unwrap();
    let mut types = 0;
    for (line, number) in text.lines().zip(1..) {
        let mut name = None;
        for span in code_spans(line) {
            if is_type_name(span) {
                name = Some(span);
            } else if span.contains('/') && [".rs", ".ts"].iter().any(|end| span.ends_with(end)) {
                let paths = [repository().join(span), repository().join("crates").join(span)];
                let Some(source) = paths.iter().find_map(|path| std::fs::read_to_string(path).ok()) else {
                    errors.push(format!("{document}:{number}: {span} does not exist"));
                    continue;
                };
                let Some(name) = name.take() else { continue };
                types += 1;
                let defined = ["struct", "enum", "trait"].iter().any(|keyword| {
                    source.match_indices(&format!("{keyword} {name}")).any(|(at, found)| {
                        !source[at + found.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    })
                });
                if !defined {
                    errors.push(format!("{document}:{number}: {span} does not define `{name}`"));
                }
            }
        }
        if let Some(name) = name {
            errors.push(format!("{document}:{number}: no file is named for `{name}`"));
        }
    }
    types
}

#[test]
fn files_and_types_that_documents_name_exist() {
    let mut errors = Vec::new();
    let types: Vec<usize> =
        ["ARCHITECTURE.md", "CONTRIBUTING.md"].iter().map(|document| check_names(document, &mut errors)).collect();
    assert!(types.iter().all(|types| *types >= 25), "types with their files: {types:?}");
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn the_way_of_a_record_has_fewer_than_fifteen_types() {
    let text = std::fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let (_, walk) = text.split_once("\n## A record: socket to answer\n").unwrap();
    let (walk, _) = walk.split_once("\n## ").unwrap();
    let steps = walk.lines().filter(|line| line.starts_with("| ") && line.contains(".rs`")).count();
    assert!((8..15).contains(&steps), "{steps} steps");
}

#[test]
fn every_fuzz_target_is_declared_and_documented() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    let (manifest, text) = (read("fuzz/Cargo.toml"), read("docs/testing.md"));
    let (_, table) = text.split_once("\n## Fuzz targets\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let names = table.lines().filter_map(|line| line.split('|').nth(1)).flat_map(code_spans);
    let mut documented: Vec<&str> = names.collect();
    let targets = files(&repository().join("fuzz/fuzz_targets"), &["rs"]);
    let stems = targets.iter().map(|path| path.file_stem().unwrap().to_str().unwrap());
    let mut found: Vec<&str> = stems.collect();
    documented.sort_unstable();
    found.sort_unstable();
    assert_eq!(documented, found, "docs/testing.md, and fuzz/fuzz_targets");
    for name in found {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml does not declare {name}");
    }
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let (mut errors, mut links) = (Vec::new(), 0);
    for path in files(repository(), &["md"]) {
        let text = std::fs::read_to_string(&path).unwrap();
        for (line, number) in text.lines().zip(1..) {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()) {
                if link.starts_with("http") || link.starts_with('/') {
                    continue;
                }
                links += 1;
                let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
                let found = if fragment.is_empty() {
                    target.exists()
                } else {
                    std::fs::read_to_string(&target).is_ok_and(|text| {
                        text.lines()
                            .any(|line| line.starts_with('#') && anchor(line.trim_start_matches('#')) == fragment)
                    })
                };
                if !found {
                    errors.push(format!("{}:{number}: {link} does not exist", short(&path)));
                }
            }
        }
    }
    assert!(links > 100, "only {links} links found");
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}
