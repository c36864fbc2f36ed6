//! Paths and shell patterns, and the files that they match.
//!
//! A pattern is matched part by part, so only directories that can hold a match are listed, and a path without wildcards lists
//! none. Names are bytes: a name that is not UTF-8 matches like any other.
//!
//! - `*` and `?` match within one part of the path, `**` matches any number of directories, `[…]` and `{…,…}` work as in a shell.
//! - Wildcards match no name that begins with a dot, unless the part of the pattern begins with one.
//! - Symbolic links are followed, except by `**`, which would not end in a cycle of links.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bucksaw_env::{DirEntry, EntryKind, FileStat, Fs};
use globset::{ErrorKind, GlobBuilder, GlobMatcher};

/// How deep `**` descends.
const DEPTH_MAX: usize = 64;

/// A path, or a shell pattern of paths.
#[derive(Clone, Debug)]
pub struct PathPattern {
    text: String,
    is_absolute: bool,
    components: Vec<PatternComponent>,
    whole: GlobMatcher,
}

#[derive(Clone, Debug)]
enum PatternComponent {
    Name(OsString),
    Wildcards { matcher: GlobMatcher, matches_hidden: bool },
    AnyDepth,
}

/// A text is no pattern.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// Nothing to match.
    #[error("the pattern is empty")]
    Empty,
    /// Braces or brackets contain a `/`.
    #[error("brackets and braces cannot contain \"/\"")]
    SpansParts,
    /// Brackets or braces are not closed, or the like.
    #[error("{}", syntax_problem(.0))]
    Syntax(#[source] globset::Error),
}

/// What is wrong with a pattern, and how a name with such a character is written.
fn syntax_problem(error: &globset::Error) -> String {
    match error.kind() {
        ErrorKind::UnclosedClass => "a bracket is not closed; write \\[ for a name that has one".to_owned(),
        ErrorKind::UnclosedAlternates => "a brace is not closed; write \\{ for a name that has one".to_owned(),
        ErrorKind::UnopenedAlternates => "a brace is not opened; write \\} for a name that has one".to_owned(),
        ErrorKind::InvalidRange(from, to) => format!("a range in brackets ends before it begins: {from}-{to}"),
        ErrorKind::DanglingEscape => {
            "nothing follows the last backslash; write \\\\ for a name that has one".to_owned()
        }
        kind => kind.to_string(),
    }
}

impl PathPattern {
    /// Parses a path or pattern, absolute or relative to the working directory. A backslash escapes a wildcard.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let is_absolute = text.starts_with('/');
        let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.is_empty() {
            return Err(PatternError::Empty);
        }
        let mut components = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let component = match *part {
                "**" => PatternComponent::AnyDepth,
                part if part.contains(['*', '?', '[', '{']) => {
                    let matcher = glob(part).map_err(|error| {
                        match spans_parts(part, parts.get(at + 1..).unwrap_or_default()) {
                            true => PatternError::SpansParts,
                            false => PatternError::Syntax(error),
                        }
                    })?;
                    PatternComponent::Wildcards { matcher, matches_hidden: part.starts_with('.') }
                }
                part => PatternComponent::Name(part.into()),
            };
            // Two of them match what one matches, in quadratic time.
            let is_repeated = matches!(component, PatternComponent::AnyDepth)
                && matches!(components.last(), Some(PatternComponent::AnyDepth));
            if !is_repeated {
                components.push(component);
            }
        }
        if matches!(components.last(), Some(PatternComponent::AnyDepth)) {
            let matcher = glob("*").map_err(PatternError::Syntax)?;
            components.push(PatternComponent::Wildcards { matcher, matches_hidden: false });
        }
        let joined = format!("{}{}", if is_absolute { "/" } else { "" }, parts.join("/"));
        let whole = glob(&joined).map_err(PatternError::Syntax)?;
        Ok(Self { text: text.to_owned(), is_absolute, components, whole })
    }

    /// The pattern as it was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it excludes this path.
    fn excludes(&self, path: &Path) -> bool {
        match path.file_name() {
            Some(name) if !self.text.contains('/') => self.whole.is_match(Path::new(name)),
            _ => self.whole.is_match(path),
        }
    }
}

fn glob(text: &str) -> Result<GlobMatcher, globset::Error> {
    Ok(GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build()?.compile_matcher())
}

/// Whether the part of a pattern ends inside of brackets or braces.
fn spans_parts(part: &str, later: &[&str]) -> bool {
    let spans = |open: char, close: char| {
        part.matches(open).count() > part.matches(close).count() && later.iter().any(|later| later.contains(close))
    };
    spans('{', '}') || spans('[', ']')
}

/// The listings of one scan, each directory at most once.
#[derive(Debug)]
pub(crate) struct Directories<'a> {
    fs: &'a dyn Fs,
    listed: HashMap<PathBuf, Rc<Vec<DirEntry>>>,
    /// Paths that could not be read, for another reason than that they do not exist. What is below is unknown.
    failed: Vec<(PathBuf, io::Error)>,
}

impl<'a> Directories<'a> {
    pub(crate) fn new(fs: &'a dyn Fs) -> Self {
        Self { fs, listed: HashMap::new(), failed: Vec::new() }
    }

    /// The names in a directory, sorted; none if it does not exist or cannot be read.
    pub(crate) fn entries(&mut self, dir: &Path) -> Rc<Vec<DirEntry>> {
        if let Some(entries) = self.listed.get(dir) {
            return Rc::clone(entries);
        }
        let at = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let mut entries = self.fs.entries(at).unwrap_or_else(|error| {
            self.fail(dir, error);
            Vec::new()
        });
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let entries = Rc::new(entries);
        self.listed.insert(dir.to_owned(), Rc::clone(&entries));
        entries
    }

    /// The state of a path, if it exists and can be read.
    pub(crate) fn stat(&mut self, path: &Path) -> Option<FileStat> {
        self.fs.stat(path).map_err(|error| self.fail(path, error)).ok()
    }

    /// Whether nothing is known of this path, because it or a directory above could not be read.
    pub(crate) fn is_unknown(&self, path: &Path) -> bool {
        self.failed.iter().any(|(failed, _)| path.starts_with(failed))
    }

    pub(crate) fn failed(&self) -> &[(PathBuf, io::Error)] {
        &self.failed
    }

    fn fail(&mut self, path: &Path, error: io::Error) {
        if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
            self.failed.push((path.to_owned(), error));
        }
    }
}

/// What the patterns match at one moment.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// Paths and what they lead to, in the order of patterns and names, each path once.
    pub(crate) found: Vec<(PathBuf, FileStat)>,
    /// The number of matches beyond the limit.
    pub(crate) beyond_limit: u64,
    /// The directories in which a name may match, listed or not.
    pub(crate) directories: BTreeSet<PathBuf>,
    paths: BTreeSet<PathBuf>,
}

/// Finds what `patterns` match and `excluded` do not, at most `files_max` paths.
pub(crate) fn find_matches(
    directories: &mut Directories<'_>,
    patterns: &[PathPattern],
    excluded: &[PathPattern],
    files_max: usize,
) -> Matches {
    let mut matches = Matches::default();
    for pattern in patterns {
        let start = Path::new(if pattern.is_absolute { "/" } else { "" });
        let mut add = |path: PathBuf, directories: &mut Directories<'_>| {
            if let Some(parent) = path.parent().filter(|parent| !matches.directories.contains(*parent)) {
                matches.directories.insert(parent.to_owned());
            }
            if excluded.iter().any(|pattern| pattern.excludes(&path)) || matches.paths.contains(&path) {
                return;
            }
            if matches.found.len() >= files_max {
                matches.beyond_limit += 1;
                return;
            }
            if let Some(stat) = directories.stat(&path) {
                matches.paths.insert(path.clone());
                matches.found.push((path, stat));
            }
        };
        walk(directories, start, &pattern.components, 0, &mut add);
    }
    matches.directories.extend(directories.listed.keys().cloned());
    matches
}

/// Calls `add` with each path below `base` that the components lead to. Not every one exists.
fn walk(
    directories: &mut Directories<'_>,
    base: &Path,
    components: &[PatternComponent],
    depth: usize,
    add: &mut dyn FnMut(PathBuf, &mut Directories<'_>),
) {
    let Some((component, rest)) = components.split_first() else {
        add(base.to_owned(), directories);
        return;
    };
    match component {
        PatternComponent::Name(name) => walk(directories, &base.join(name), rest, depth, add),
        PatternComponent::Wildcards { matcher, matches_hidden } => {
            for entry in directories.entries(base).iter() {
                let is_hidden = entry.name.as_bytes().starts_with(b".") && !matches_hidden;
                let may_lead_on = rest.is_empty() || matches!(entry.kind, EntryKind::Directory | EntryKind::Symlink);
                if !is_hidden && may_lead_on && matcher.is_match(Path::new(&entry.name)) {
                    walk(directories, &base.join(&entry.name), rest, depth, add);
                }
            }
        }
        PatternComponent::AnyDepth => {
            walk(directories, base, rest, depth, add);
            for entry in directories.entries(base).iter() {
                let is_hidden = entry.name.as_bytes().starts_with(b".");
                if entry.kind == EntryKind::Directory && !is_hidden && depth < DEPTH_MAX {
                    walk(directories, &base.join(&entry.name), components, depth + 1, add);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bucksaw_env::sim;

    fn parse(text: &str) -> PathPattern {
        PathPattern::parse(text).unwrap()
    }

    fn disk(paths: &[&str]) -> sim::Fs {
        let fs = sim::Fs::new();
        for path in paths {
            fs.create_dir_all(Path::new(path).parent().unwrap()).unwrap();
            fs.append_to(path, b"x").unwrap();
        }
        fs
    }

    fn found(fs: &sim::Fs, patterns: &[&str], excluded: &[&str]) -> Vec<String> {
        let patterns: Vec<_> = patterns.iter().copied().map(parse).collect();
        let excluded: Vec<_> = excluded.iter().copied().map(parse).collect();
        let matches = find_matches(&mut Directories::new(fs), &patterns, &excluded, 100);
        matches.found.iter().map(|(path, _)| path.display().to_string()).collect()
    }

    #[test]
    fn wildcards_match_part_by_part() {
        let fs = disk(&["/l/a.log", "/l/b.log", "/l/b.txt", "/l/.c.log", "/l/d/e.log", "/l/d/f/g.log", "/l/.h/i.log"]);
        let check = |pattern: &str, want: &[&str]| assert_eq!(found(&fs, &[pattern], &[]), want, "{pattern}");
        check("/l/a.log", &["/l/a.log"]);
        check("/l/none", &[]);
        check("/l/*.log", &["/l/a.log", "/l/b.log"]);
        check("/l/.*.log", &["/l/.c.log"]);
        check("/l/[ab].{log,txt}", &["/l/a.log", "/l/b.log", "/l/b.txt"]);
        check("/*/*/?.log", &["/l/d/e.log"]);
        check("/l/**/*.log", &["/l/a.log", "/l/b.log", "/l/d/e.log", "/l/d/f/g.log"]);
        check("/l/d/**", &["/l/d/e.log", "/l/d/f", "/l/d/f/g.log"]);
        check("//l/.//d//e.log", &["/l/d/e.log"]);
        assert_eq!(found(&fs, &["/l/**/**/g.log", "/l/d/*/*"], &[]), ["/l/d/f/g.log"]);
        assert_eq!(found(&fs, &["/l/**/*.log"], &["b.*", "/l/d/**"]), ["/l/a.log"]);
        assert_eq!(found(&disk(&["x/a.log"]), &["./*/a.log", "x/a.log"], &[]), ["x/a.log"]);
    }

    #[test]
    fn links_are_followed_but_not_in_circles() {
        let fs = disk(&["/data/a.log"]);
        fs.create_dir_all(Path::new("/l")).unwrap();
        fs.symlink("/data/a.log", "/l/a.log");
        fs.symlink("/data", "/l/data");
        fs.symlink("/l/self", "/l/self");
        fs.symlink("/l", "/l/up");
        assert_eq!(found(&fs, &["/l/*.log", "/l/data/*.log"], &[]), ["/l/a.log", "/l/data/a.log"]);
        assert_eq!(found(&fs, &["/l/**/*.log"], &[]), ["/l/a.log"]);
        let mut directories = Directories::new(&fs);
        assert!(find_matches(&mut directories, &[parse("/l/self")], &[], 9).found.is_empty());
        assert_eq!(directories.failed().len(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_unknown_and_not_gone() {
        let fs = disk(&["/l/a/x.log", "/l/b/x.log"]);
        fs.forbid("/l/a", true);
        let mut directories = Directories::new(&fs);
        let matches = find_matches(&mut directories, &[parse("/l/*/*.log"), parse("/none/*")], &[], 9);
        assert_eq!(matches.found.len(), 1);
        assert!(directories.is_unknown(Path::new("/l/a/x.log")) && !directories.is_unknown(Path::new("/none/x")));
    }

    #[test]
    fn matches_beyond_the_limit_are_counted() {
        let fs = disk(&["/l/a", "/l/b", "/l/c"]);
        let matches = find_matches(&mut Directories::new(&fs), &[parse("/l/*")], &[], 2);
        assert_eq!((matches.found.len(), matches.beyond_limit), (2, 1));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", "/", "./", "/l/[a", "/l/{a/b}", "/l/{a"] {
            assert!(PathPattern::parse(text).is_err(), "{text}");
        }
        assert!(PathPattern::parse("/l/{a/b}").unwrap_err().to_string().contains("cannot contain"));
    }
}
