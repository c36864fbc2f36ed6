//! The modules inside a crate form no cycle: a file does not name items of a file that, directly or not, names its own.
//!
//! Counted are `use` lines and paths in the code. Re-exports (`pub use`) lead to the file that defines the item, and are no
//! use themselves; a private import is one. Modules under `#[cfg(test)]` are not counted. Method calls between `impl` blocks of one
//! type in several files are not seen, because they name no file.

use std::collections::{BTreeMap, BTreeSet};

use crate::module_tree::ModuleTree;
use crate::source_files::crate_directories;

type Graph = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Groups of files of which each reaches each other, sorted.
fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|file| (file, reachable(graph, file))).collect();
    let mut cycles = BTreeSet::new();
    for (file, others) in &reached {
        if others.contains(*file) {
            let group = others.iter().filter(|other| reached.get(**other).is_some_and(|back| back.contains(*file)));
            cycles.insert(group.map(|file| (*file).clone()).collect::<Vec<_>>());
        }
    }
    cycles.into_iter().collect()
}

fn reachable<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![from.to_owned()];
    while let Some(file) = pending.pop() {
        for next in graph.get(&file).into_iter().flatten().map(|(next, _)| next) {
            if reached.insert(next) {
                pending.push(next.clone());
            }
        }
    }
    reached
}

/// The files of a cycle, and the names by which each uses the others.
fn describe(graph: &Graph, files: &[String]) -> String {
    let mut text = format!("cycle of {} files:\n", files.len());
    for file in files {
        for (next, names) in graph.get(file).into_iter().flatten().filter(|(next, _)| files.contains(next)) {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            text.push_str(&format!("  {file} → {next}: {}\n", names.join(", ")));
        }
    }
    text
}

#[test]
fn modules_form_no_cycles() {
    let mut errors = Vec::new();
    let mut files_seen = 0;
    for directory in crate_directories() {
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| directory.join(file));
        let graphs: Vec<_> =
            roots.iter().filter(|root| root.exists()).map(|root| ModuleTree::read(root).uses()).collect();
        files_seen += graphs.iter().map(BTreeMap::len).sum::<usize>();
        errors.extend(graphs.iter().flat_map(|graph| cycles(graph).into_iter().map(|cycle| describe(graph, &cycle))));
    }
    assert!(files_seen > 200, "only {files_seen} files use another file of their crate");
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

#[test]
fn a_cycle_is_found_with_all_its_files_and_no_other() {
    let names = ["a b", "b c", "c a", "c d", "e a"].map(|edge| edge.split_once(' ').unwrap());
    let mut graph = Graph::new();
    for (from, to) in names {
        graph.entry(from.to_owned()).or_default().entry(to.to_owned()).or_default().insert("Item".to_owned());
    }
    assert_eq!(cycles(&graph), [["a", "b", "c"].map(str::to_owned).to_vec()]);
    assert!(describe(&graph, &cycles(&graph)[0]).contains("c → a: Item"));
}
