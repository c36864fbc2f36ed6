//! The modules of one crate, read from its sources, and the file in which a path of a module is defined.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

use crate::source_files::short;

/// A crate's modules by their path from the crate root; the root is the empty path.
pub(crate) type ModulePath = Vec<String>;

/// What one module declares and uses.
#[derive(Default)]
struct Module {
    /// The file that holds the module, as seen from the repository.
    file: String,
    /// Names of items that the module defines itself.
    items: BTreeSet<String>,
    /// Names of the modules that it declares, tests excepted.
    children: BTreeSet<String>,
    /// Imported names with the path that each stands for.
    imports: BTreeMap<String, ModulePath>,
    /// Paths whose names are all imported.
    globs: Vec<ModulePath>,
    /// Every path that the module names, the lines `mod` and `pub use` excepted.
    paths: BTreeSet<ModulePath>,
}

/// The modules of one crate, without those for tests.
pub(crate) struct ModuleTree {
    modules: BTreeMap<ModulePath, Module>,
}

impl ModuleTree {
    /// Reads the crate whose root file is `root`: a `lib.rs` or `main.rs`.
    pub(crate) fn read(root: &Path) -> Self {
        let mut tree = Self { modules: BTreeMap::new() };
        tree.read_file(root, root.parent().unwrap(), Vec::new());
        tree
    }

    /// Reads `file`, the module `path`, whose child modules are files in `directory`.
    fn read_file(&mut self, file: &Path, directory: &Path, path: ModulePath) {
        let source = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&source).unwrap_or_else(|error| panic!("{}: {error}", short(file)));
        self.read_items(file, directory, path, &parsed.items);
    }

    fn read_items(&mut self, file: &Path, directory: &Path, path: ModulePath, items: &[syn::Item]) {
        let mut module = Module { file: short(file), ..Module::default() };
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                syn::Item::Mod(child) => {
                    let name = child.ident.to_string();
                    let child_path: ModulePath = path.iter().cloned().chain([name.clone()]).collect();
                    if let Some((_, items)) = &child.content {
                        self.read_items(file, &directory.join(&name), child_path, items);
                    } else {
                        let (child_file, child_directory) = module_file(directory, &name);
                        self.read_file(&child_file, &child_directory, child_path);
                    }
                    module.children.insert(name);
                }
                syn::Item::Use(item) => module.add_use(item),
                _ => {
                    module.items.extend(name_of(item));
                    Paths(&mut module.paths).visit_item(item);
                }
            }
        }
        self.modules.insert(path, module);
    }

    /// For each file the other files whose items it names, with the names.
    pub(crate) fn uses(&self) -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
        let mut uses: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (at, module) in &self.modules {
            for path in &module.paths {
                if let Some((file, name)) = self.resolve(at, path, &mut BTreeSet::new())
                    && file != module.file
                {
                    uses.entry(module.file.clone()).or_default().entry(file).or_default().insert(name);
                }
            }
        }
        uses
    }

    /// The file that defines what `path` names inside the module `at`, with the name; `None` outside of the crate.
    fn resolve(
        &self,
        at: &[String],
        path: &[String],
        visited: &mut BTreeSet<(ModulePath, ModulePath)>,
    ) -> Option<(String, String)> {
        if !visited.insert((at.to_vec(), path.to_vec())) {
            return None;
        }
        let module = self.modules.get(at)?;
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => return self.resolve(&[], rest, visited),
            "self" => return self.resolve(at, rest, visited),
            "super" => return self.resolve(at.split_last()?.1, rest, visited),
            _ => {}
        }
        if module.items.contains(first) {
            return Some((module.file.clone(), first.clone()));
        }
        if module.children.contains(first) {
            let child: ModulePath = at.iter().cloned().chain([first.clone()]).collect();
            if rest.is_empty() {
                return None;
            }
            return self.resolve(&child, rest, visited);
        }
        if let Some(import) = module.imports.get(first) {
            let full: ModulePath = import.iter().chain(rest).cloned().collect();
            return self.resolve(at, &full, visited);
        }
        // A glob of another crate leads nowhere, and its name must not lead to itself.
        let is_here = |glob: &&ModulePath| {
            let first = glob.first().map(String::as_str).unwrap_or_default();
            matches!(first, "crate" | "self" | "super") || module.children.contains(first)
        };
        module.globs.iter().filter(is_here).find_map(|glob| {
            let full: ModulePath = glob.iter().chain(path).cloned().collect();
            self.resolve(at, &full, visited)
        })
    }
}

impl Module {
    fn add_use(&mut self, item: &syn::ItemUse) {
        let mut leaves = Vec::new();
        let mut globs = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut leaves, &mut globs);
        let re_export = !matches!(item.vis, syn::Visibility::Inherited);
        for (name, path) in leaves {
            // A leading `::` or the name of another crate leads nowhere in this tree; a name that is imported from a crate
            // of the same name must not lead to itself.
            if path.first() != Some(&name) {
                self.imports.insert(name, path.clone());
            }
            if !re_export {
                self.paths.insert(path);
            }
        }
        self.globs.extend(globs);
    }
}

/// The names that a `use` brings in, each with its path, and the paths that end in `*`.
fn flatten(
    tree: &syn::UseTree,
    prefix: &mut ModulePath,
    leaves: &mut Vec<(String, ModulePath)>,
    globs: &mut Vec<ModulePath>,
) {
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, leaves, globs);
            prefix.pop();
        }
        syn::UseTree::Name(name) if name.ident == "self" => {
            leaves.extend(prefix.last().cloned().map(|last| (last, prefix.clone())));
        }
        syn::UseTree::Name(name) => leaves.push((name.ident.to_string(), joined(prefix, &name.ident))),
        syn::UseTree::Rename(rename) => leaves.push((rename.rename.to_string(), joined(prefix, &rename.ident))),
        syn::UseTree::Glob(_) => globs.push(prefix.clone()),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, prefix, leaves, globs)),
    }
}

fn joined(prefix: &[String], last: &syn::Ident) -> ModulePath {
    prefix.iter().cloned().chain([last.to_string()]).collect()
}

/// Collects all paths of an item: in types, expressions, patterns, and in the arguments of macros.
struct Paths<'a>(&'a mut BTreeSet<ModulePath>);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    // An attribute is not code of this crate.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.0.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        // The text of the tokens has spaces around `::`; without them a path is one word.
        let text = call.tokens.to_string().replace(" :: ", "::");
        for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            let path: ModulePath = word.split("::").map(str::to_owned).collect();
            if path.len() > 1 && path.iter().all(|segment| !segment.is_empty()) {
                self.0.insert(path);
            }
        }
        visit::visit_macro(self, call);
    }
}

/// Whether an item is compiled for tests only.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The file of the module `name` that is declared by a file whose modules are in `directory`, and the directory of its own
/// modules.
fn module_file(directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    let own_directory = directory.join(name);
    let flat = directory.join(format!("{name}.rs"));
    if flat.exists() { (flat, own_directory) } else { (own_directory.join("mod.rs"), own_directory) }
}
