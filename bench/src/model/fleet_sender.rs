//! A `bucksaw forward` process and the thread that writes lines to its standard input.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use bucksaw_faults::wait;

use super::bodies::cut_bodies;
use super::fleet_load::ForwarderLoad;

/// The most time in which a forwarder ships what it has read.
const SHIP_MAX: Duration = Duration::from_secs(120);

/// A running forwarder, killed on drop.
#[derive(Debug)]
pub(super) struct FleetSender {
    child: Child,
    writer: Option<JoinHandle<u64>>,
    log: PathBuf,
}

impl FleetSender {
    /// Starts a forwarder to these nodes, and writes lines of a sample until `stop`. `number` makes the lines of all senders differ.
    pub(super) fn start(
        bucksaw: &Path,
        log: PathBuf,
        to: &[SocketAddr],
        (load, number): (ForwarderLoad, usize),
        sample: &[u8],
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(bucksaw);
        command.args(["forward", "--durability", "durable", "--label", &format!("writer={number}")]);
        for node in to {
            command.args(["--to", &node.to_string()]);
        }
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", bucksaw.display()))?;
        let input = child.stdin.take().context("no pipe")?;
        let (records, every) = load.cycle();
        let texts = cut_bodies(sample, records * load.line_bytes, load.line_bytes);
        ensure!(!texts.is_empty(), "the sample is too small");
        let stop = Arc::clone(stop);
        let writer = thread::spawn(move || records * write(input, &texts, number, every, &stop));
        Ok(Self { child, writer: Some(writer), log })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// After the stop: waits until everything is acknowledged, and returns the number of records.
    pub(super) fn finish(mut self) -> anyhow::Result<u64> {
        let writer = self.writer.take().context("it has finished")?;
        let records = writer.join().map_err(|_| anyhow!("a writer panicked"))?;
        let every = Duration::from_millis(20);
        let status = wait::until("the end of a forwarder", every, SHIP_MAX, || Ok(self.child.try_wait()?))?;
        let log = || std::fs::read_to_string(&self.log).unwrap_or_default();
        ensure!(status.success(), "a forwarder ended with {status}: {}", log());
        Ok(records)
    }
}

impl Drop for FleetSender {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes the texts in turn, one per interval, and returns their number. One that is late is written at once, as programs print
/// what they have to print.
fn write(mut input: ChildStdin, texts: &[Vec<u8>], first: usize, every: Duration, stop: &AtomicBool) -> u64 {
    let started = Instant::now();
    let from = first * 7_919 % texts.len();
    let mut written = 0_u32;
    for text in texts.iter().cycle().skip(from) {
        thread::sleep((every * written).saturating_sub(started.elapsed()));
        if stop.load(Ordering::Relaxed) || input.write_all(text).is_err() {
            break;
        }
        written += 1;
    }
    u64::from(written)
}
