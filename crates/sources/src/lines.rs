//! A connection that sends lines.
//!
//! The whole lines of a chunk are appended from the read buffer; only the unfinished last line is copied. A refused chunk is
//! copied, too, and the connection is not read from until the chunk is appended.

use std::borrow::Cow;
use std::sync::Arc;

use bucksaw_auth::ClientAccess;
use bucksaw_env::{GaugeGuard, log_limited};

use bucksaw_ingest::{IngestError, Source};
use bucksaw_record::time::LineTimeReader;
use bucksaw_record::{Flags, Labels, LineSplitter, SplitLines};

use crate::append_retry::retry_append;
use crate::intake::{FrameMeta, IdAssignment, RecordStream, Records};
use crate::listener_state::{CarriedBytesGuard, ListenerState};
use crate::one_way::{ChunkConsumer, consume};
use crate::socket_reader::SocketReader;

struct LineConnection {
    shared: Arc<ListenerState>,
    splitter: LineSplitter,
    stream: RecordStream,
    ids: IdAssignment,
    /// `None` if lines have the time of their arrival.
    line_times: Option<LineTimeReader>,
    carried_bytes: CarriedBytesGuard,
}

/// Input of a connection.
enum LineInput<'a> {
    /// A chunk as it was read.
    Chunk(Cow<'a, [u8]>),
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
    input: LineInput<'static>,
    refused: RefusedAppend,
    /// Created with the refusal, so that other connections stop reading at once.
    _blocked: GaugeGuard,
}

/// Reads lines until the stream ends or the node stops. `first` has already arrived.
pub(crate) async fn run(
    feed: &mut SocketReader<'_>,
    shared: &Arc<ListenerState>,
    client: &ClientAccess,
    labels: Labels,
    first: Vec<u8>,
) {
    let intake = shared.intake.clone().of_client(client);
    let mut lines = LineConnection {
        shared: Arc::clone(shared),
        splitter: LineSplitter::new(shared.config.record_bytes()),
        stream: RecordStream {
            intake: intake.clone(),
            source: Source::Tcp,
            labels,
            durability: shared.setup.durability,
        },
        ids: IdAssignment::arrival(&intake),
        line_times: shared.setup.line_zone().cloned().map(LineTimeReader::new),
        carried_bytes: CarriedBytesGuard::new(shared),
    };
    consume(feed, (shared, client), &mut lines, first).await;
}

/// Appends lines with new ids, or with those of an earlier attempt.
fn append_lines(
    stream: &RecordStream,
    ids: &mut IdAssignment,
    line_times: Option<&mut LineTimeReader>,
    lines: &SplitLines<'_>,
    prepared: Option<Box<FrameMeta<'static>>>,
) -> Result<(), RefusedAppend> {
    if lines.count == 0 {
        return Ok(());
    }
    let records = Records::from(lines);
    let prepared = match prepared {
        Some(prepared) => *prepared,
        None => {
            let prepared = stream.prepare(ids, records, line_times, false);
            prepared.map_err(|error| RefusedAppend { prepared: None, refusal: error.into() })?
        }
    };
    // Lines have no acknowledgement.
    match stream.append(&prepared, records.text, |_| {}) {
        Ok(()) => Ok(()),
        Err(refusal) => Err(RefusedAppend { prepared: Some(Box::new(prepared)), refusal }),
    }
}

impl ChunkConsumer for LineConnection {
    type Refused = RefusedInput;

    fn push(&mut self, chunk: &[u8]) -> Result<(), RefusedInput> {
        self.append_or_hold(LineInput::Chunk(Cow::Borrowed(chunk)))?;
        if self.shared.exceeds_memory_share(self.splitter.carry_bytes()) {
            self.append_or_hold(LineInput::UnfinishedLine(Flags::CUT))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), RefusedInput> {
        self.append_or_hold(LineInput::UnfinishedLine(Flags::UNTERMINATED))
    }

    async fn retry_until_appended(&mut self, feed: &mut SocketReader<'_>, held: RefusedInput) -> bool {
        let RefusedInput { input, refused: RefusedAppend { mut prepared, refusal }, _blocked } = held;
        let shared = Arc::clone(&self.shared);
        let append = || {
            self.append(&input, prepared.take()).map_err(|refused| {
                prepared = refused.prepared;
                refused.refusal
            })
        };
        let Err(reason) = retry_append(&mut feed.stop, &shared, refusal, append).await else { return true };
        self.drop_refused(&input, &reason);
        false
    }
}

impl LineConnection {
    fn append_or_hold(&mut self, input: LineInput<'_>) -> Result<(), RefusedInput> {
        let Err(refused) = self.append(&input, None) else { return Ok(()) };
        let input = match input {
            LineInput::Chunk(chunk) => LineInput::Chunk(Cow::Owned(chunk.into_owned())),
            LineInput::UnfinishedLine(flag) => LineInput::UnfinishedLine(flag),
        };
        Err(RefusedInput { input, refused, _blocked: self.shared.count_blocked() })
    }

    fn append(
        &mut self,
        input: &LineInput<'_>,
        prepared: Option<Box<FrameMeta<'static>>>,
    ) -> Result<(), RefusedAppend> {
        match input {
            LineInput::Chunk(chunk) => {
                let lines = self.splitter.split(chunk);
                append_lines(&self.stream, &mut self.ids, self.line_times.as_mut(), &lines, prepared)?;
                let remainder = lines.remainder();
                self.splitter.advance(chunk, remainder);
            }
            LineInput::UnfinishedLine(flag) => {
                if let Some(line) = self.splitter.finish(*flag) {
                    append_lines(&self.stream, &mut self.ids, self.line_times.as_mut(), &line, prepared)?;
                }
                self.splitter.clear();
            }
        }
        self.carried_bytes.set(self.splitter.carry_bytes());
        Ok(())
    }

    fn drop_refused(&self, input: &LineInput<'_>, reason: &IngestError) {
        let chunk = match input {
            LineInput::Chunk(chunk) => chunk.len(),
            LineInput::UnfinishedLine(_) => 0,
        };
        let bytes = (self.splitter.carry_bytes() + chunk) as u64;
        self.shared.metrics.dropped_bytes.inc_by(bytes);
        log_limited!(self.shared.log_limits, error, bytes, %reason, "connection closed, last lines dropped: the queue refuses them");
    }
}
