//! A connection that sends lines.
//!
//! The whole lines of a chunk are appended from the read buffer; only the unfinished last line is copied. A refused chunk is
//! copied, too, and the connection is not read from until the chunk is appended.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_ingest::{Durability, IngestError, Source};
use bucksaw_record::{Flags, Labels, LineSplitter, SplitLines};
use tracing::error;

use crate::intake::{FrameMeta, IdAssignment, PrepareError, RecordStream, Records};
use crate::listener_state::{BlockedGuard, CarriedBytesGuard, ListenerState};
use crate::socket_reader::{CHUNK_BYTES, SocketRead, SocketReader};

/// Reads of a busy connection before it yields to others.
const READS_PER_TURN: usize = 16;

/// The delay of a retry while the disk is full.
const FULL_PAUSE: Duration = Duration::from_millis(250);

/// The delay of a retry while the disk syncs.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// How long a connection waits while another has a refused chunk.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// How long write errors are retried before lines are dropped.
const WRITE_ERROR_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay before refused records are appended again; `None` if a retry is useless.
pub(crate) fn pause_after(refusal: &IngestError) -> Option<Duration> {
    match refusal {
        IngestError::ShuttingDown => None,
        IngestError::SyncBacklog => Some(BUSY_PAUSE),
        _ => Some(FULL_PAUSE),
    }
}

struct LineConnection {
    shared: Arc<ListenerState>,
    splitter: LineSplitter,
    stream: RecordStream,
    ids: IdAssignment,
    carried_bytes: CarriedBytesGuard,
}

/// Input that is appended again.
enum RetryInput {
    /// A chunk as it was read.
    Chunk(Vec<u8>),
    /// The unfinished line, as a record with this flag.
    UnfinishedLine(u8),
}

/// An append that the queue refused.
struct RefusedAppend {
    /// The ids with which the lines are appended again, so that they are not stored twice if they reached the disk.
    prepared: Option<Box<FrameMeta<'static>>>,
    refusal: IngestError,
}

struct RefusedInput {
    input: RetryInput,
    refused: RefusedAppend,
    /// Created with the refusal, so that other connections stop reading at once.
    _holding: BlockedGuard,
}

/// Reads lines until the stream ends or the node stops. `first` has already arrived.
pub(crate) async fn run(feed: &mut SocketReader<'_>, shared: &Arc<ListenerState>, labels: Labels, first: Vec<u8>) {
    let mut lines = LineConnection {
        shared: Arc::clone(shared),
        splitter: LineSplitter::new(shared.config.record_bytes()),
        stream: RecordStream {
            intake: shared.intake.clone(),
            source: Source::Tcp,
            labels,
            durability: shared.durability,
        },
        ids: IdAssignment::arrival(&shared.intake),
        carried_bytes: CarriedBytesGuard::new(shared),
    };
    let mut taken = lines.append_or_hold(&first);
    drop(first);
    loop {
        if let Err(held) = taken
            && !lines.retry_until_taken(feed, held).await
        {
            return;
        }
        taken = Ok(());
        if !feed.wait().await {
            break;
        }
        if shared.is_refusing() {
            if feed.is_stopped() && shared.has_given_up() {
                break;
            }
            // Without reading, the end of the stream must be detected separately, to free the descriptor.
            if feed.is_hung_up_and_read().await {
                break;
            }
            // If the queue is not halted, other connections wait for one sync.
            feed.pause(if shared.intake.queue.is_halted() { FULL_PAUSE } else { REFUSED_PAUSE }).await;
        } else {
            taken = lines.read_available(feed);
            tokio::task::yield_now().await;
        }
    }
    if let Err(held) = lines.append_unfinished_or_hold(Flags::UNTERMINATED) {
        lines.retry_until_taken(feed, held).await;
    }
    if shared.durability == Durability::Bulk {
        shared.intake.queue.flush_bulk();
    }
}

/// Appends lines with new ids, or with those of an earlier attempt.
fn append_lines(
    stream: &RecordStream,
    ids: &mut IdAssignment,
    lines: &SplitLines<'_>,
    prepared: Option<Box<FrameMeta<'static>>>,
) -> Result<(), RefusedAppend> {
    if lines.count == 0 {
        return Ok(());
    }
    let records = Records::from(lines);
    let prepared = match prepared {
        Some(prepared) => *prepared,
        None => stream.prepare(ids, records, false).map_err(|error| RefusedAppend {
            prepared: None,
            refusal: match error {
                PrepareError::Refused(refusal) => refusal,
                PrepareError::SequenceExhausted => IngestError::Io(error.to_string()),
            },
        })?,
    };
    // Lines have no acknowledgement.
    match stream.append(&prepared, records.text, |_| {}) {
        Ok(()) => Ok(()),
        Err(refusal) => Err(RefusedAppend { prepared: Some(Box::new(prepared)), refusal }),
    }
}

impl LineConnection {
    /// Reads and appends what has arrived, up to a number of reads.
    fn read_available(&mut self, feed: &mut SocketReader<'_>) -> Result<(), RefusedInput> {
        for _ in 0..READS_PER_TURN {
            match feed.read(CHUNK_BYTES, |chunk| self.append_or_hold(chunk)) {
                SocketRead::Data(taken) => taken?,
                SocketRead::WouldBlock | SocketRead::Ended => break,
            }
        }
        Ok(())
    }

    fn append_or_hold(&mut self, chunk: &[u8]) -> Result<(), RefusedInput> {
        self.append_chunk(chunk, None)
            .map_err(|refused| self.refused_input(RetryInput::Chunk(chunk.to_vec()), refused))?;
        if self.shared.exceeds_memory_share(self.splitter.carry_bytes()) {
            self.append_unfinished_or_hold(Flags::CUT)
        } else {
            Ok(())
        }
    }

    fn append_unfinished_or_hold(&mut self, mark: u8) -> Result<(), RefusedInput> {
        self.append_unfinished(mark, None)
            .map_err(|refused| self.refused_input(RetryInput::UnfinishedLine(mark), refused))
    }

    fn refused_input(&self, what: RetryInput, refused: RefusedAppend) -> RefusedInput {
        RefusedInput { input: what, refused, _holding: BlockedGuard::new(&self.shared) }
    }

    fn append_chunk(&mut self, chunk: &[u8], prepared: Option<Box<FrameMeta<'static>>>) -> Result<(), RefusedAppend> {
        let lines = self.splitter.split(chunk);
        append_lines(&self.stream, &mut self.ids, &lines, prepared)?;
        let remainder = lines.remainder();
        self.splitter.advance(chunk, remainder);
        self.carried_bytes.set(self.splitter.carry_bytes());
        Ok(())
    }

    fn append_unfinished(&mut self, flag: u8, prepared: Option<Box<FrameMeta<'static>>>) -> Result<(), RefusedAppend> {
        if let Some(line) = self.splitter.finish(flag) {
            append_lines(&self.stream, &mut self.ids, &line, prepared)?;
        }
        self.splitter.clear();
        self.carried_bytes.set(0);
        Ok(())
    }

    /// Retries until the input is appended. False if it is dropped, which is counted.
    async fn retry_until_taken(&mut self, feed: &mut SocketReader<'_>, mut held: RefusedInput) -> bool {
        let clock = Arc::clone(&self.shared.intake.env.clock);
        let since = clock.uptime();
        loop {
            let is_persistent_error = matches!(held.refused.refusal, IngestError::Io(_))
                && clock.uptime().saturating_sub(since) > WRITE_ERROR_TIMEOUT;
            let pause = pause_after(&held.refused.refusal).filter(|_| !is_persistent_error);
            // After the stop a full disk gets one more attempt, and a running sync is waited for.
            let is_last_try =
                feed.is_stopped() && (held.refused.refusal != IngestError::SyncBacklog || feed.is_past_drain_timeout());
            if let Some(pause) = pause {
                feed.pause(pause).await;
                let prepared = held.refused.prepared.take();
                let taken = match &held.input {
                    RetryInput::Chunk(chunk) => self.append_chunk(chunk, prepared),
                    RetryInput::UnfinishedLine(flag) => self.append_unfinished(*flag, prepared),
                };
                match taken {
                    Ok(()) => return true,
                    Err(refused) => held.refused = refused,
                }
            }
            if pause.is_none() || is_last_try {
                if feed.is_stopped() {
                    self.shared.set_given_up();
                }
                self.drop_refused(&held);
                return false;
            }
        }
    }

    fn drop_refused(&self, held: &RefusedInput) {
        let chunk = match &held.input {
            RetryInput::Chunk(chunk) => chunk.len(),
            RetryInput::UnfinishedLine(_) => 0,
        };
        let bytes = (self.splitter.carry_bytes() + chunk) as u64;
        self.shared.metrics.dropped_bytes.inc_by(bytes);
        if let Some(suppressed) = self.shared.may_log(|errors| &errors.dropped_lines) {
            let reason = &held.refused.refusal;
            error!(bytes, %reason, suppressed, "connection closed, last lines dropped: the queue refuses them");
        }
    }
}
