//! A connection that sends lines.
//!
//! Whole lines go to the queue as they were read, a chunk at a time; only the unfinished last line is kept here. A chunk
//! that the queue refuses is kept too, and the connection reads nothing until it is taken.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_ingest::{Durability, Refusal};
use bucksaw_record::{Cutter, Id, Labels, Marks};
use tracing::error;

use crate::feed::{CHUNK_BYTES, Feed, Read};
use crate::shared::{Carried, Holding, Shared};
use crate::stream::{Refused, Stream};

/// A busy connection lets the others in after so many reads.
const READS: usize = 16;

/// When the disk is full it is tried again after this.
const FULL_PAUSE: Duration = Duration::from_millis(250);

/// Too much to be synced is a matter of one sync.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// How long a connection waits while another holds what was refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// So long write errors are borne.
const ERRORS_MAX: Duration = Duration::from_secs(5);

/// How long to wait before records are tried again that were refused; `None` when that is no use.
pub(crate) fn pause_after(refusal: &Refusal) -> Option<Duration> {
    match refusal {
        Refusal::Closed => None,
        Refusal::Busy => Some(BUSY_PAUSE),
        _ => Some(FULL_PAUSE),
    }
}

struct Lines {
    shared: Arc<Shared>,
    cutter: Cutter,
    stream: Stream,
    carried: Carried,
}

/// What is tried again.
enum What {
    /// A chunk as it was read.
    Chunk(Vec<u8>),
    /// The unfinished line, as a record with this mark.
    Rest(u8),
}

struct Held {
    what: What,
    refused: Refused,
    /// Made at once and not where it is waited: before that others would read what is refused as well.
    _holding: Holding,
}

/// Takes lines until the stream ends or the node stops; `first` came already.
pub(crate) async fn run(feed: &mut Feed<'_>, shared: &Arc<Shared>, labels: Labels, first: Vec<u8>) {
    let mut lines = Lines {
        shared: Arc::clone(shared),
        cutter: Cutter::new(shared.intake.config.record_bytes()),
        stream: Stream::new(shared, labels),
        carried: Carried::new(shared),
    };
    let mut taken = lines.take(&first);
    drop(first);
    loop {
        if let Err(held) = taken
            && !lines.hold(feed, held).await
        {
            return;
        }
        taken = Ok(());
        if !feed.wait().await {
            break;
        }
        if shared.is_refusing() {
            if feed.is_stopped() && shared.is_hopeless() {
                break;
            }
            // Nothing is read now, so the end of the stream would not be seen, and the descriptor not be given back.
            if feed.is_spent().await {
                break;
            }
            // Where the queue is not halted, others wait for one sync.
            feed.pause(if shared.intake.queue.is_halted() { FULL_PAUSE } else { REFUSED_PAUSE }).await;
        } else {
            taken = lines.burst(feed);
            tokio::task::yield_now().await;
        }
    }
    if let Err(held) = lines.give_away(Marks::OPEN) {
        lines.hold(feed, held).await;
    }
    if shared.durability == Durability::Bulk {
        shared.intake.queue.flush_bulk();
    }
}

impl Lines {
    /// Reads what is there, for a while.
    fn burst(&mut self, feed: &mut Feed<'_>) -> Result<(), Held> {
        for _ in 0..READS {
            match feed.read(CHUNK_BYTES, |chunk| self.take(chunk)) {
                Read::Took(taken) => taken?,
                Read::Empty | Read::End => break,
            }
        }
        Ok(())
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), Held> {
        self.take_chunk(chunk, None).map_err(|refused| self.held(What::Chunk(chunk.to_vec()), refused))?;
        if self.shared.wants_back(self.cutter.carried()) { self.give_away(Marks::CUT) } else { Ok(()) }
    }

    fn give_away(&mut self, mark: u8) -> Result<(), Held> {
        self.take_rest(mark, None).map_err(|refused| self.held(What::Rest(mark), refused))
    }

    fn held(&self, what: What, refused: Refused) -> Held {
        Held { what, refused, _holding: Holding::new(&self.shared) }
    }

    fn take_chunk(&mut self, chunk: &[u8], first: Option<Id>) -> Result<(), Refused> {
        let cut = self.cutter.cut(chunk);
        self.stream.append(&cut, first)?;
        let rest = cut.rest();
        self.cutter.advance(chunk, rest);
        self.carried.set(self.cutter.carried());
        Ok(())
    }

    fn take_rest(&mut self, mark: u8, first: Option<Id>) -> Result<(), Refused> {
        if let Some(cut) = self.cutter.finish(mark) {
            self.stream.append(&cut, first)?;
        }
        self.cutter.clear();
        self.carried.set(0);
        Ok(())
    }

    /// Tries until it is taken. False when it is given up, which is counted.
    async fn hold(&mut self, feed: &mut Feed<'_>, mut held: Held) -> bool {
        let clock = Arc::clone(&self.shared.intake.doors.clock);
        let since = clock.uptime();
        loop {
            let lasting =
                matches!(held.refused.refusal, Refusal::Io(_)) && clock.uptime().saturating_sub(since) > ERRORS_MAX;
            let pause = pause_after(&held.refused.refusal).filter(|_| !lasting);
            // After the stop a full disk gets one more try; a sync that is under way is worth waiting for.
            let last = feed.is_stopped() && (held.refused.refusal != Refusal::Busy || feed.is_late());
            if let Some(pause) = pause {
                feed.pause(pause).await;
                let first = Some(held.refused.first);
                let taken = match &held.what {
                    What::Chunk(chunk) => self.take_chunk(chunk, first),
                    What::Rest(mark) => self.take_rest(*mark, first),
                };
                match taken {
                    Ok(()) => return true,
                    Err(refused) => held.refused = refused,
                }
            }
            if pause.is_none() || last {
                if feed.is_stopped() {
                    self.shared.give_up();
                }
                self.drop_all(&held);
                return false;
            }
        }
    }

    fn drop_all(&self, held: &Held) {
        let chunk = match &held.what {
            What::Chunk(chunk) => chunk.len(),
            What::Rest(_) => 0,
        };
        let bytes = (self.cutter.carried() + chunk) as u64;
        self.shared.intake.metrics.dropped_bytes.inc_by(bytes);
        if let Some(suppressed) = self.shared.may_log(|errors| &errors.lost) {
            let reason = &held.refused.refusal;
            error!(bytes, %reason, suppressed, "a connection is closed and its last lines are lost: the queue does not take them");
        }
    }
}
