//! Which commit a program was built from, as far as that can be known.
//!
//! Cargo writes beside a program a list of the files of ours that it was built from. When the program was written after
//! all of these, it was built from what they say now, and git knows what that is. When it was not, cargo would build it
//! again, and nobody can tell what is in it. Libraries of others are known by `Cargo.lock`, which is taken for one of these.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine;

/// The commit's short name, followed by `+` when what the program was built from differs from it; `older than` it when the
/// program is older than what it was built from; `unknown` when the program stands where it was not built, or there is
/// no git.
pub(crate) fn commit(program: &Path) -> String {
    traced(program).unwrap_or_else(|| "unknown".into())
}

fn traced(program: &Path) -> Option<String> {
    let listed = std::fs::read_to_string(program.with_extension("d")).ok()?;
    let mut files = sources(&listed);
    // What a build wrote itself may lie outside the tree.
    let root = files.iter().find_map(|file| git(file.parent()?, &["rev-parse", "--show-toplevel"]));
    let root = PathBuf::from(root?);
    files.retain(|file| file.starts_with(&root));
    files.extend(["Cargo.toml", "Cargo.lock"].map(|name| root.join(name)));
    let commit = git(&root, &["rev-parse", "--short", "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(files.iter().filter_map(|file| file.to_str()));
    let changed = if git(&root, &status)?.is_empty() { "" } else { "+" };
    let built = machine::written(program).ok()?;
    // A file that is gone was changed, too.
    let is_newer = |file: &PathBuf| machine::written(file).map_or(true, |written| written > built);
    let older = if files.iter().any(is_newer) { "older than " } else { "" };
    Some(format!("{older}{commit}{changed}"))
}

/// The files in a rule for `make`: `program: file file …`, blanks in names behind a backslash.
fn sources(rule: &str) -> Vec<PathBuf> {
    let files = rule.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, files)| files);
    let names = files.replace("\\ ", "\0");
    names.split_whitespace().map(|name| PathBuf::from(name.replace('\0', " "))).collect()
}

fn git(dir: &Path, args: &[&str]) -> Option<String> {
    let output =
        Command::new("git").arg("-C").arg(dir).args(args).output().ok().filter(|done| done.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn rules_are_read() {
        let check = |rule: &str, want: &[&str]| {
            assert_eq!(sources(rule), want.iter().map(PathBuf::from).collect::<Vec<_>>(), "{rule}");
        };
        check("/t/release/x: /a/main.rs /with\\ blank/b.rs\n", &["/a/main.rs", "/with blank/b.rs"]);
        check("/t/release/x:\n", &[]);
        check("", &[]);
    }

    #[test]
    fn programs_are_traced_to_their_commit() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let git = |args: &[&str]| git(dir.path(), args).unwrap();
        git(&["init", "--quiet"]);
        for name in ["main.rs", "Cargo.toml", "Cargo.lock", "notes"] {
            fs::write(path(name), "1").unwrap();
        }
        git(&["add", "."]);
        git(&["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message=one"]);
        let commit = git(&["rev-parse", "--short", "HEAD"]);
        let program = path("program");
        let check = |want: String| assert_eq!(super::commit(&program), want);
        let build = |after: u64| {
            let built = SystemTime::now() + Duration::from_secs(after);
            File::create(&program).unwrap().set_modified(built).unwrap();
        };
        build(10);
        check("unknown".into());
        let outside = tempfile::NamedTempFile::new().unwrap();
        let listed = [outside.path(), &path("main.rs")].map(|file| file.display().to_string()).join(" ");
        fs::write(path("program.d"), format!("{}: {listed}\n", program.display())).unwrap();
        check(commit.clone());
        fs::write(path("notes"), "2").unwrap();
        check(commit.clone());
        fs::write(path("main.rs"), "2").unwrap();
        check(format!("{commit}+"));
        File::open(path("main.rs")).unwrap().set_modified(SystemTime::now() + Duration::from_secs(20)).unwrap();
        check(format!("older than {commit}+"));
        build(30);
        check(format!("{commit}+"));
    }
}
