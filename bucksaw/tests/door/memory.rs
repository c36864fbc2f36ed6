//! The memory limit: found in nested control groups, shown, and refused when a node would not work with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::node::{bucksaw, serve};

/// Two control groups for memory, one in the other; the outer one has the limit. Removed when this is dropped.
struct Groups {
    outer: PathBuf,
    inner: PathBuf,
}

impl Groups {
    /// `None`, and a word about it, where none can be made.
    fn new(name: &str, bytes: u64) -> Option<Self> {
        let old = Path::new("/sys/fs/cgroup/memory");
        let (root, file) =
            if old.is_dir() { (old, "memory.limit_in_bytes") } else { (Path::new("/sys/fs/cgroup"), "memory.max") };
        let outer = root.join(format!("bucksaw-door-{}-{name}", std::process::id()));
        let groups = Self { inner: outer.join("inner"), outer };
        let made = fs::create_dir(&groups.outer)
            .and_then(|()| fs::write(groups.outer.join(file), bytes.to_string()))
            .and_then(|()| fs::create_dir(&groups.inner));
        if let Err(error) = made {
            eprintln!("skipped: no control groups for memory ({error}): this needs root");
            return None;
        }
        Some(groups)
    }

    /// The command in the inner group.
    fn run(&self, command: &Command) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.inner.join("cgroup.procs"));
        shell.arg(command.get_program()).args(command.get_args());
        shell
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // Those that still have a process stay.
        let _ = fs::remove_dir(&self.inner);
        let _ = fs::remove_dir(&self.outer);
    }
}

#[test]
fn too_little_memory_is_refused_with_the_limit_that_was_found() {
    let dir = tempfile::tempdir().unwrap();
    let check = |command: &mut Command, words: &[&str]| {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{said}");
        words.iter().for_each(|word| assert!(said.contains(word), "{word}: {said}"));
    };
    check(&mut serve(dir.path(), ["--memory-limit", "64MB"]), &["--memory-limit is 64", "at least 128"]);
    check(&mut serve(dir.path(), ["--memory-limit", "9000TB"]), &["--memory-limit is", "lower --memory-limit"]);
    let Some(groups) = Groups::new("small", 100 << 20) else { return };
    let outer = groups.outer.display().to_string();
    check(&mut groups.run(&serve(dir.path(), [""; 0])), &[&outer, "allows 100", "at least 128"]);
}

#[test]
fn the_limit_of_an_outer_group_holds_and_is_shown() {
    let Some(groups) = Groups::new("enough", 300 << 20) else { return };
    // Started by the command line alone: a shell joins the group first.
    let dir = tempfile::tempdir().unwrap();
    let mut node = crate::running::Running::start(&mut groups.run(&serve(dir.path(), [""; 0])));
    let mut said = node.said();
    assert!(said.contains("300.0 MB") && said.contains(&groups.outer.display().to_string()), "{said}");
    while !said.contains("ready") {
        said = node.said();
    }
    let http = said.split("http=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let status = bucksaw(["status", "-o", "json", "--addr", &format!("http://{http}")]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["nodes"][0]["memory_limit_bytes"], 300 << 20);
    node.ask_to_stop();
    let (ended, _, rest) = node.end();
    assert!(ended.success(), "{rest}");
}
