//! Sends lines over TCP, at full speed or at a rate.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bucksaw_generate::LineSchedule;

use crate::corpus::Corpus;

/// Bytes of a write.
const WRITE: usize = 256 << 10;

/// The interval of writes at a rate.
const TICK: Duration = Duration::from_millis(5);

/// Sends a whole file and closes the connection.
pub(crate) fn file(address: &str, corpus: &Corpus) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    let mut file = File::open(&corpus.path)?;
    let mut piece = vec![0; WRITE];
    loop {
        let read = file.read(&mut piece)?;
        let Some(piece) = piece.get(..read).filter(|piece| !piece.is_empty()) else { break };
        stream.write_all(piece).context("the connection was closed")?;
    }
    Ok(stream.shutdown(Shutdown::Write)?)
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FeedTotals {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    pub(crate) seconds: f64,
    /// Maximum delay of the sender in seconds, because the node did not read.
    pub(crate) delay: f64,
}

/// Sends the lines of the sample repeatedly at a rate in bytes per second until it is stopped.
pub(crate) fn paced(
    address: &str,
    sample: &[u8],
    bytes_per_second: f64,
    go_on: impl Fn(Duration) -> bool,
) -> anyhow::Result<FeedTotals> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    let started = Instant::now();
    let mut pace = LineSchedule::new(bytes_per_second);
    let (mut fed, mut due, mut at) = (FeedTotals::default(), 0_i64, 0);
    while go_on(started.elapsed()) {
        due += i64::try_from(pace.lines_due(started.elapsed()))?;
        fed.delay = fed.delay.max(due as f64 / bytes_per_second);
        while due > 0 {
            let rest = sample.get(at..).filter(|rest| !rest.is_empty()).unwrap_or(sample);
            let lines = first_lines(rest, usize::try_from(due)?.min(WRITE));
            stream.write_all(lines).context("the node closed the connection")?;
            at = sample.len() - rest.len() + lines.len();
            due -= i64::try_from(lines.len())?;
            fed.bytes += lines.len() as u64;
            fed.lines += memchr::memchr_iter(b'\n', lines).count() as u64;
        }
        thread::sleep(TICK);
    }
    fed.seconds = started.elapsed().as_secs_f64();
    stream.shutdown(Shutdown::Write)?;
    Ok(fed)
}

/// Complete lines of at least `bytes` bytes, if the text has as many.
fn first_lines(text: &[u8], bytes: usize) -> &[u8] {
    let rest = text.get(bytes.saturating_sub(1)..).unwrap_or_default();
    let end = memchr::memchr(b'\n', rest).map_or(text.len(), |at| bytes.saturating_sub(1) + at + 1);
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_contain_complete_lines() {
        assert_eq!(first_lines(b"ab\ncd\nef\n", 1), b"ab\n");
        assert_eq!(first_lines(b"ab\ncd\nef\n", 3), b"ab\n");
        assert_eq!(first_lines(b"ab\ncd\nef\n", 4), b"ab\ncd\n");
        assert_eq!(first_lines(b"ab\ncd\nef\n", 99), b"ab\ncd\nef\n");
    }

    #[test]
    fn the_rate_is_kept() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
            all
        });
        let sample = b"one\ntwo\nthree\n".repeat(1_000);
        let fed = paced(&address, &sample, 2e6, |passed| passed < Duration::from_millis(300)).unwrap();
        let all = reader.join().unwrap();
        assert_eq!(fed.bytes, all.len() as u64);
        assert_eq!(fed.lines, memchr::memchr_iter(b'\n', &all).count() as u64);
        assert!(all.ends_with(b"\n") && all.starts_with(b"one\ntwo\nthree\n"));
        assert!((fed.bytes as f64) < 2e6 * fed.seconds + 20.0, "{fed:?}");
    }
}
