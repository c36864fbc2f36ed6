//! `rg` on the raw file and on the output of `zstd`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use crate::process;

/// Bytes of a read of the output.
const READ: usize = 256 << 10;

/// The result and the cost of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolTiming {
    pub(crate) lines: u64,
    /// Bytes of the printed lines, or of their printed number.
    pub(crate) bytes: u64,
    pub(crate) wall_seconds: f64,
    pub(crate) cpu_seconds: f64,
}

/// Whether both programs are installed.
pub(crate) fn are_installed() -> bool {
    let there = |name: &str| Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok();
    there("rg") && there("zstd")
}

/// Counts lines of a file on one thread.
pub(crate) fn rg(regex: &str, file: &Path) -> anyhow::Result<ToolTiming> {
    time_tool(|| Ok(vec![spawn(grep(regex).args(["-c", "--include-zero"]).arg(file))?]))
}

/// Prints lines of a file on one thread.
pub(crate) fn rg_printing(regex: &str, file: &Path) -> anyhow::Result<ToolTiming> {
    run(|| Ok(vec![spawn(grep(regex).arg("-N").arg(file))?]), &mut Vec::new())
}

/// Counts lines of a compressed file.
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

/// The output of the first child is the number of lines.
fn time_tool(start: impl FnOnce() -> anyhow::Result<Vec<Child>>) -> anyhow::Result<ToolTiming> {
    let mut said = Vec::new();
    let searched = run(start, &mut said)?;
    let said = String::from_utf8_lossy(&said);
    let lines = said.trim().parse().with_context(|| format!("unexpected output of rg: `{said}`"))?;
    Ok(ToolTiming { lines, ..searched })
}

/// Reads the output of the first child, keeps its beginning, and waits for all. Their CPU is the increase of the CPU
/// of all children, so no other child may end meanwhile.
fn run(start: impl FnOnce() -> anyhow::Result<Vec<Child>>, head: &mut Vec<u8>) -> anyhow::Result<ToolTiming> {
    let (before, started) = (process::children_cpu_seconds()?, Instant::now());
    let mut children = start()?;
    let (mut bytes, mut lines, mut piece) = (0, 0, vec![0; READ]);
    let mut out = children.first_mut().and_then(|child| child.stdout.take()).context("a rival has no output")?;
    loop {
        let read = out.read(&mut piece)?;
        let Some(piece) = piece.get(..read).filter(|piece| !piece.is_empty()) else { break };
        if bytes == 0 {
            head.extend_from_slice(piece);
        }
        bytes += piece.len() as u64;
        lines += memchr::memchr_iter(b'\n', piece).count() as u64;
    }
    for child in &mut children {
        let status = child.wait()?;
        // 1 means that no line matched.
        ensure!(status.code().is_some_and(|code| code < 2), "a rival failed: {status}");
    }
    let cpu_seconds = process::children_cpu_seconds()? - before;
    Ok(ToolTiming { lines, bytes, wall_seconds: started.elapsed().as_secs_f64(), cpu_seconds })
}

/// Compresses a file with zstd -3 in independent frames of 4 MB, and returns the number of bytes.
pub(crate) fn pack(file: &Path, packed: &Path) -> anyhow::Result<u64> {
    let out = File::create(packed)?;
    let status = Command::new("zstd").args(["-3", "-cq", "-T1", "-B4MB"]).arg(file).stdout(out).status();
    ensure!(status.context("cannot start zstd")?.success(), "zstd failed");
    Ok(std::fs::metadata(packed)?.len())
}
