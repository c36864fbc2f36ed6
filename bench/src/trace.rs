//! Distinct lines, with the times at which each was sent and seen by a tail client.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::bail;
use bucksaw_faults::http::Client;
use bucksaw_faults::wait;

use crate::ndjson_stream::{NdjsonStream, StreamStopper};

/// The maximum time until the tail client sees the last line.
const VISIBLE_MAX: Duration = Duration::from_secs(30);

/// The lines sent, and the tail client that looks for them.
#[derive(Debug)]
pub(crate) struct VisibilityTrace {
    word: String,
    times: Arc<Mutex<Vec<LineTimes>>>,
    stopper: StreamStopper,
    follower: JoinHandle<anyhow::Result<()>>,
}

#[derive(Clone, Copy, Debug)]
struct LineTimes {
    sent: Instant,
    seen: Option<Instant>,
    /// How often it was seen; correct is once.
    count: u32,
}

impl VisibilityTrace {
    /// Tails the lines that contain `word`, which consists of letters.
    pub(crate) fn start(http: Client, word: &str) -> anyhow::Result<Self> {
        let mut follow = NdjsonStream::open(http, &format!("/api/v1/tail?q={word}_"))?;
        let stopper = follow.stopper()?;
        let times: Arc<Mutex<Vec<LineTimes>>> = Arc::default();
        let (shared_times, mark) = (Arc::clone(&times), format!("{word}_"));
        let follower = thread::spawn(move || {
            let mut note = |line: &[u8]| {
                let now = Instant::now();
                let mut times = shared_times.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(line) = number_in(line, &mark).and_then(|number| times.get_mut(number)) {
                    line.seen.get_or_insert(now);
                    line.count += 1;
                }
            };
            while follow.read_lines(&mut note)? {}
            bail!("the node ended the tail")
        });
        Ok(Self { word: word.to_owned(), times, stopper, follower })
    }

    /// The next line, which counts as sent now.
    pub(crate) fn send(&self) -> (usize, String) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.push(LineTimes { sent: Instant::now(), seen: None, count: 0 });
        let number = times.len() - 1;
        (number, format!("level=info {} msg=\"a line that is looked for\"\n", self.name(number)))
    }

    /// The text that only this line contains.
    pub(crate) fn name(&self, number: usize) -> String {
        format!("{}_{number}_", self.word)
    }

    /// Waits until the tail client has seen all lines, and returns the time of each.
    pub(crate) fn end(self) -> anyhow::Result<Vec<Duration>> {
        let all = || self.times.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let seen = wait::until("the tail client receiving every line", Duration::from_millis(20), VISIBLE_MAX, || {
            if self.follower.is_finished() {
                return Ok(Some(()));
            }
            Ok(all().iter().all(|line| line.seen.is_some()).then_some(()))
        });
        self.stopper.stop();
        let ended = self.follower.join();
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let (sent, missed) = (times.len(), times.iter().filter(|line| line.seen.is_none()).count());
        if missed > 0 {
            bail!("the tail client missed {missed} of {sent} lines: {seen:?} {ended:?}");
        }
        if times.iter().any(|line| line.count != 1) {
            bail!("the tail client received a line more than once");
        }
        Ok(times.iter().filter_map(|line| Some(line.seen?.duration_since(line.sent))).collect())
    }
}

/// The number between the mark and the next `_`.
fn number_in(line: &[u8], mark: &str) -> Option<usize> {
    let start = memchr::memmem::find(line, mark.as_bytes())? + mark.len();
    let rest = line.get(start..)?;
    let digits = rest.get(..memchr::memchr(b'_', rest)?)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_are_parsed() {
        assert_eq!(number_in(b"{\"line\":\"level=info probe_17_ msg\"}", "probe_"), Some(17));
        assert_eq!(number_in(b"probe_17", "probe_"), None);
        assert_eq!(number_in(b"other", "probe_"), None);
    }
}
