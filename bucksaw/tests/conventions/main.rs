//! Conventions of the source tree: the map in ARCHITECTURE.md, retired words, unique type names, and no cycle of modules
//! inside a crate.
//! `tests/layers.rs` tests the graph of crates.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "reads the sources of the project itself; a test fails by a panic"
)]

mod documents;
mod module_cycles;
mod module_tree;
mod retired_words;
mod source_files;
mod type_names;
