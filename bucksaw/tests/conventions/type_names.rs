//! One type name means one thing: every `struct`, `enum`, `trait`, `union` and `type` of the workspace has a name of its own.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::source_files::{crate_directories, files, repository, short};

/// Names that several crates define by convention, with the reason.
const CONVENTIONAL: [(&str, &str); 10] = [
    ("Cli", "the root of a program's command line"),
    ("Config", "the settings of a crate or of a part of one"),
    ("Metrics", "the metrics of a crate"),
    ("Reader", "reads the format of its module"),
    ("Writer", "writes the format of its module"),
    ("Clock", "an environment trait and its two implementations"),
    ("Entropy", "an environment trait and its two implementations"),
    ("Fs", "an environment trait and its two implementations"),
    ("Net", "an environment trait and its two implementations"),
    ("Tasks", "an environment trait and its two implementations"),
];

/// Collects the names of type definitions at any depth, except associated types.
#[derive(Default)]
struct TypeNames(Vec<String>);

impl<'ast> Visit<'ast> for TypeNames {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let name = match item {
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            _ => None,
        };
        self.0.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }
}

/// The files that define each type name of the workspace, tests included.
fn definitions() -> BTreeMap<String, Vec<String>> {
    let mut definitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for directory in crate_directories().into_iter().chain([repository().join("fuzz")]) {
        for path in files(&directory, &["rs"]) {
            let source = std::fs::read_to_string(&path).unwrap();
            let file = syn::parse_file(&source).unwrap_or_else(|error| panic!("{}: {error}", short(&path)));
            let mut names = TypeNames::default();
            names.visit_file(&file);
            for name in names.0 {
                definitions.entry(name).or_default().push(short(&path));
            }
        }
    }
    definitions
}

#[test]
fn each_type_name_is_defined_once() {
    let definitions = definitions();
    assert!(definitions.len() > 500, "only {} type names found", definitions.len());
    let mut errors = Vec::new();
    for (name, files) in &definitions {
        if files.len() > 1 && CONVENTIONAL.iter().all(|(conventional, _)| conventional != name) {
            errors.push(format!("`{name}` is defined {} times: {}", files.len(), files.join(", ")));
        }
    }
    assert!(errors.is_empty(), "type names with more than one meaning:\n{}", errors.join("\n"));
}
