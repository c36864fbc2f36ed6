//! `rg` on the raw file, on one thread.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::draw::RgSearch;
use crate::process;

/// Runs of a search. The cheapest counts: other work of the machine only adds.
const RUNS: usize = 2;

/// What `rg` found, and what it cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct RgAnswer {
    pub(super) lines: u64,
    pub(super) cpu_seconds: f64,
    pub(super) wall_seconds: f64,
}

pub(super) fn is_installed() -> bool {
    Command::new("rg").arg("--version").stdout(Stdio::null()).status().is_ok()
}

/// Counts the lines that all searches find, each in the output of the one before.
pub(super) fn search(searches: &[RgSearch], file: &Path) -> anyhow::Result<RgAnswer> {
    let mut best: Option<RgAnswer> = None;
    for _ in 0..RUNS {
        let answer = search_once(searches, file)?;
        best = Some(match best {
            Some(best) if best.cpu_seconds <= answer.cpu_seconds => best,
            _ => answer,
        });
    }
    best.context("rg was not run")
}

fn search_once(searches: &[RgSearch], file: &Path) -> anyhow::Result<RgAnswer> {
    let (before, started) = (process::children_cpu_seconds()?, Instant::now());
    let (mut children, mut output) = (Vec::new(), None);
    for (at, search) in searches.iter().enumerate() {
        let mut command = Command::new("rg");
        // Lines are bytes, and a case is that of ASCII: with Unicode rg is slower.
        command.args(["--no-config", "-j1", "-a", "--no-unicode", "--no-filename", "-N"]).args(search.options);
        if at + 1 == searches.len() {
            command.args(["-c", "--include-zero"]);
        }
        command.args(["-e", &search.pattern]).arg(if at == 0 { file } else { Path::new("-") });
        command.stdin(output.take().map_or_else(Stdio::null, Stdio::from)).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start rg")?;
        output = child.stdout.take();
        children.push(child);
    }
    let mut said = String::new();
    output.context("rg has no output")?.read_to_string(&mut said)?;
    for child in &mut children {
        let status = child.wait()?;
        // 1 means that no line matched.
        ensure!(status.code().is_some_and(|code| code < 2), "rg failed: {status}");
    }
    let cpu_seconds = process::children_cpu_seconds()? - before;
    let lines = said.trim().parse().with_context(|| format!("unexpected output of rg: `{said}`"))?;
    Ok(RgAnswer { lines, cpu_seconds, wall_seconds: started.elapsed().as_secs_f64() })
}
