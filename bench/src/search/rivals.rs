//! `rg` on the raw file, and on what `zstd` unpacks.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::{process, wait};

/// How long a search may take.
const SEARCH_MAX: Duration = Duration::from_secs(300);

/// What a search found and took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Searched {
    pub(crate) lines: u64,
    pub(crate) wall_seconds: f64,
    pub(crate) cpu_seconds: f64,
}

/// Whether both programs are there.
pub(crate) fn are_there() -> bool {
    let there = |name: &str| Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok();
    there("rg") && there("zstd")
}

/// Counts lines of a file, with one thread.
pub(crate) fn rg(regex: &str, file: &Path) -> anyhow::Result<Searched> {
    let mut command = counting(regex);
    run(&mut [command.arg(file).stdout(Stdio::piped()).spawn().context("cannot start rg")?])
}

/// Counts lines of what a packed file unpacks to.
pub(crate) fn zstd_rg(regex: &str, packed: &Path) -> anyhow::Result<Searched> {
    let mut zstd = Command::new("zstd");
    let mut zstd =
        zstd.args(["-dcq", "-T1"]).arg(packed).stdout(Stdio::piped()).spawn().context("cannot start zstd")?;
    let text = zstd.stdout.take().context("zstd has no output")?;
    let mut command = counting(regex);
    let rg = command.arg("-").stdin(text).stdout(Stdio::piped()).spawn().context("cannot start rg")?;
    run(&mut [rg, zstd])
}

fn counting(regex: &str) -> Command {
    let mut command = Command::new("rg");
    command.args(["--no-config", "-j1", "-a", "-c", "--include-zero", "--no-unicode", "--no-filename", "-e", regex]);
    command.stdin(Stdio::null());
    command
}

/// Waits for all; the first says how many lines there are.
fn run(children: &mut [Child]) -> anyhow::Result<Searched> {
    let started = Instant::now();
    let mut cpu_seconds = 0.0;
    for child in children.iter() {
        wait::until("a search", Duration::from_millis(1), SEARCH_MAX, || {
            Ok(process::has_ended(child.id())?.then_some(()))
        })?;
        cpu_seconds += process::cpu_seconds(child.id())?;
    }
    let wall_seconds = started.elapsed().as_secs_f64();
    let mut text = String::new();
    for child in children.iter_mut() {
        if let Some(mut out) = child.stdout.take() {
            std::io::Read::read_to_string(&mut out, &mut text)?;
        }
        let status = child.wait()?;
        // 1 is "found nothing".
        ensure!(status.code().is_some_and(|code| code < 2), "a rival failed: {status}");
    }
    let lines = text.trim().parse().with_context(|| format!("rg says `{text}`"))?;
    Ok(Searched { lines, wall_seconds, cpu_seconds })
}

/// Packs a file as zstd -3 does, in pieces of 4 MB that are unpacked alone. Gives the bytes.
pub(crate) fn pack(file: &Path, packed: &Path) -> anyhow::Result<u64> {
    let out = File::create(packed)?;
    let status = Command::new("zstd").args(["-3", "-cq", "-T1", "-B4MB"]).arg(file).stdout(out).status();
    ensure!(status.context("cannot start zstd")?.success(), "zstd failed");
    Ok(std::fs::metadata(packed)?.len())
}
