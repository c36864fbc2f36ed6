//! The rival that only copies bytes: `socat` from a socket to a file.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bucksaw_faults::wait;

use crate::context::BenchContext;
use crate::corpus::Corpus;
use crate::results::{Figure, SPEED, figure};
use crate::{feed, process};

/// The maximum time until it exits after the connection was closed.
const END_MAX: Duration = Duration::from_secs(300);

/// Whether it is installed.
pub(super) fn is_installed() -> bool {
    let version = Command::new("socat").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Sends everything, and measures until the file is complete and the process has exited.
pub(super) fn run(context: &BenchContext, corpus: &Corpus, buffer: Option<u32>) -> anyhow::Result<Vec<Figure>> {
    let path = context.path("socat.out");
    let (mut child, address) = start(&path, buffer)?;
    let measured = measure(&child, &address, corpus);
    if measured.is_err() {
        // Fails if it has ended.
        let _ = child.kill();
    }
    child.wait()?;
    let (seconds, cpu) = measured?;
    let written = std::fs::metadata(&path)?.len();
    ensure!(written == corpus.bytes, "socat wrote {written} of {} bytes", corpus.bytes);
    std::fs::remove_file(&path)?;
    Ok(vec![
        figure("accepted_after", "s", seconds),
        figure(SPEED, "MB/s", corpus.bytes as f64 / 1e6 / seconds),
        figure("lines", "lines/s", corpus.lines as f64 / seconds),
        figure("cpu_when_accepted", "s/GB", cpu / (corpus.bytes as f64 / 1e9)),
        figure("disk_per_raw_byte", "ratio", 1.0),
    ])
}

/// Starts it on a free port, which it prints to standard error.
fn start(path: &Path, buffer: Option<u32>) -> anyhow::Result<(Child, String)> {
    let mut command = Command::new("socat");
    command.args(["-u", "-d", "-d"]);
    if let Some(buffer) = buffer {
        command.arg("-b").arg(buffer.to_string());
    }
    command.arg("TCP-LISTEN:0,bind=127.0.0.1,reuseaddr").arg(format!("FILE:{},creat,trunc", path.display()));
    let mut child = command.stderr(Stdio::piped()).spawn().context("cannot start socat")?;
    let mut messages = BufReader::new(child.stderr.take().context("socat has no standard error")?);
    let mut line = String::new();
    loop {
        line.clear();
        if messages.read_line(&mut line)? == 0 {
            let status = child.wait()?;
            bail!("socat does not listen: {status}");
        }
        if let Some((_, address)) = line.split_once("listening on AF=2 ") {
            let address = address.trim().to_owned();
            // It prints more at the end, and must not get a broken pipe.
            child.stderr = Some(messages.into_inner());
            return Ok((child, address));
        }
    }
}

fn measure(child: &Child, address: &str, corpus: &Corpus) -> anyhow::Result<(f64, f64)> {
    let started = Instant::now();
    feed::file(address, corpus)?;
    wait::until("the end of socat", Duration::from_millis(2), END_MAX, || {
        Ok(process::has_ended(child.id())?.then_some(()))
    })?;
    Ok((started.elapsed().as_secs_f64(), process::cpu_seconds(child.id())?))
}
