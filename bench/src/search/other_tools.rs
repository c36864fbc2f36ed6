//! `rg` on the raw file, and on what `zstd` unpacks.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use crate::process;

/// Bytes that are read at one go of what is printed.
const READ: usize = 256 << 10;

/// What a search found and took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolTiming {
    pub(crate) lines: u64,
    /// Of the lines, where they were printed; of their number, where they were counted.
    pub(crate) bytes: u64,
    pub(crate) wall_seconds: f64,
    pub(crate) cpu_seconds: f64,
}

/// Whether both programs are there.
pub(crate) fn are_installed() -> bool {
    let there = |name: &str| Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok();
    there("rg") && there("zstd")
}

/// Counts lines of a file, with one thread.
pub(crate) fn rg(regex: &str, file: &Path) -> anyhow::Result<ToolTiming> {
    time_tool(|| Ok(vec![spawn(grep(regex).args(["-c", "--include-zero"]).arg(file))?]))
}

/// Prints lines of a file, with one thread.
pub(crate) fn rg_printing(regex: &str, file: &Path) -> anyhow::Result<ToolTiming> {
    run(|| Ok(vec![spawn(grep(regex).arg("-N").arg(file))?]), &mut Vec::new())
}

/// Counts lines of what a packed file unpacks to.
pub(crate) fn zstd_rg(regex: &str, packed: &Path) -> anyhow::Result<ToolTiming> {
    time_tool(|| {
        let mut zstd = spawn(Command::new("zstd").args(["-dcq", "-T1"]).arg(packed))?;
        let text = zstd.stdout.take().context("zstd has no output")?;
        Ok(vec![spawn(grep(regex).args(["-c", "--include-zero"]).arg("-").stdin(text))?, zstd])
    })
}

fn grep(regex: &str) -> Command {
    let mut command = Command::new("rg");
    command.args(["--no-config", "-j1", "-a", "--no-unicode", "--no-filename", "-e", regex]);
    command.stdin(Stdio::null());
    command
}

fn spawn(command: &mut Command) -> anyhow::Result<Child> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {name}"))
}

/// The first child says how many lines there are.
fn time_tool(start: impl FnOnce() -> anyhow::Result<Vec<Child>>) -> anyhow::Result<ToolTiming> {
    let mut said = Vec::new();
    let searched = run(start, &mut said)?;
    let said = String::from_utf8_lossy(&said);
    let lines = said.trim().parse().with_context(|| format!("rg says `{said}`"))?;
    Ok(ToolTiming { lines, ..searched })
}

/// Reads what the first child prints, keeping the beginning, and waits for all. What they used is what was added to that
/// of all children, so nobody else's child may end meanwhile: nothing else is done here at the same time.
fn run(start: impl FnOnce() -> anyhow::Result<Vec<Child>>, kept: &mut Vec<u8>) -> anyhow::Result<ToolTiming> {
    let (before, began) = (process::children_cpu_seconds()?, Instant::now());
    let mut children = start()?;
    let (mut bytes, mut lines, mut piece) = (0, 0, vec![0; READ]);
    let mut out = children.first_mut().and_then(|child| child.stdout.take()).context("a rival has no output")?;
    loop {
        let read = out.read(&mut piece)?;
        let Some(piece) = piece.get(..read).filter(|piece| !piece.is_empty()) else { break };
        if bytes == 0 {
            kept.extend_from_slice(piece);
        }
        bytes += piece.len() as u64;
        lines += memchr::memchr_iter(b'\n', piece).count() as u64;
    }
    for child in &mut children {
        let status = child.wait()?;
        // 1 is "found nothing".
        ensure!(status.code().is_some_and(|code| code < 2), "a rival failed: {status}");
    }
    let cpu_seconds = process::children_cpu_seconds()? - before;
    Ok(ToolTiming { lines, bytes, wall_seconds: began.elapsed().as_secs_f64(), cpu_seconds })
}

/// Packs a file as zstd -3 does, in pieces of 4 MB that are unpacked alone. Gives the bytes.
pub(crate) fn pack(file: &Path, packed: &Path) -> anyhow::Result<u64> {
    let out = File::create(packed)?;
    let status = Command::new("zstd").args(["-3", "-cq", "-T1", "-B4MB"]).arg(file).stdout(out).status();
    ensure!(status.context("cannot start zstd")?.success(), "zstd failed");
    Ok(std::fs::metadata(packed)?.len())
}
