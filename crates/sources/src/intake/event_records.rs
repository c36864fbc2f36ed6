//! The records of one request or connection in a protocol of another log system.

use std::collections::HashMap;
use std::fmt::Display;

use bucksaw_ingest::{Durability, IdempotentBatch, Source};
use bucksaw_protocols::{Event, EventError, EventSink};
use bucksaw_record::{Flags, Labels};

use super::durability_wait::DurabilityWait;
use super::event_filter::{EventFilter, EventPlace, FilterCounts};
use super::ids::{IdAssignment, PrepareError};
use super::record_buffer::{BufferedSize, RecordBuffer};
use super::record_stream::RecordStream;
use super::retained_frames::RetainedFrames;
use super::target::Intake;

/// Text, in bytes, after which the records of all streams are appended, as for the bodies of lines.
const FLUSH_BYTES: usize = 1 << 20;

/// Records after which all are appended, however short: the time of each takes memory too.
const FLUSH_RECORDS: usize = 32 << 10;

/// Streams after which all records are appended, so that endlessly many labels need no endless memory.
const STREAMS_MAX: usize = 256;

/// Memory of a stream without records, approximately, in bytes; its labels are shared with the decoder.
const STREAM_BYTES: usize = 1 << 10;

/// Takes decoded events and appends them to the queue: the [`EventSink`] of every protocol.
///
/// ```text
///   decoder ─► push(labels, event) ─► one RecordBuffer for each stream ─► flush: a frame for each ─► queue
/// ```
/// Create one for each request, or one for each connection; give it to the decoder; call [`Self::flush`] when the decoder has
/// nothing more for now, and [`Self::finish`] at the end. Then wait with [`Self::durability_wait`] before the sender gets its
/// answer:
///
/// ```no_run
/// # use bucksaw_sources::intake::{DurabilityWait, EventRecords, EventTarget, IdAssignment, PrepareError};
/// # fn run(target: EventTarget, decode: impl Fn(&mut EventRecords)) -> Result<DurabilityWait, PrepareError> {
/// let ids = IdAssignment::consecutive(&target.intake);
/// let mut records = EventRecords::new(target, ids, 1 << 20);
/// decode(&mut records);
/// records.finish()?;
/// # Ok(records.durability_wait())
/// # }
/// ```
/// - **Blocking.** `push`, `flush` and `finish` may write to the disk and wait for it: call them where a thread may block.
/// - **Memory** is bounded by about 3 MiB and one record of maximum length: at 1 MiB of text and names, 32,768 records or
///   256 streams, everything is appended, whatever the decoder does next.
/// - **Atomicity.** A request of one stream within these bounds is one frame: all of its records are accepted, or none. Others
///   may be accepted in part; [`Self::accepted`] says how many records were.
/// - **Cuts.** The line and all values of a record count into its maximum. A longer line is cut into several records with
///   [`Flags::CUT`] on all but the last, each with all attributes. An event is refused if its values leave no room for a line, or
///   less than half of the maximum for a line that must be cut: a hostile event would be multiplied otherwise.
/// - **Failures.** [`EventSink::push`] returns what is wrong with one event. If the queue refuses records, that and later events
///   are dropped, and the error is returned by the next `flush` or `finish`; a decoder of a long body can stop early at
///   [`Self::has_failed`]. With [`Self::retaining`], they are kept, and the next `flush` appends them again, with the same ids.
/// - **Idempotency.** With [`IdAssignment::Keyed`] the ids depend on labels, times, lines and attributes in their order, so a
///   retry must decode to the same events, and flush only in `finish`.
#[derive(Debug)]
pub struct EventRecords {
    target: EventTarget,
    ids: IdAssignment,
    record_bytes_max: usize,
    durability_wait: DurabilityWait,
    /// In the order of their first event, so that a retry appends them in the same order.
    streams: Vec<(Labels, RecordBuffer)>,
    by_labels: HashMap<Labels, usize>,
    /// What the first stream held when it was last appended. As much is expected of the next one, so that its buffer need not
    /// grow step by step.
    expected: BufferedSize,
    /// The stream of the last event.
    last: usize,
    buffered_records: usize,
    /// Bytes of text of all streams and of what describes it.
    content_bytes: usize,
    accepted: u64,
    rejected: u64,
    /// Why the first event since [`Self::take_rejection`] was refused.
    rejection: Option<String>,
    failure: Option<PrepareError>,
    /// Whether an append waits while the disk syncs.
    waits: bool,
    /// What the queue refused; `None` if that is dropped.
    retained: Option<RetainedFrames>,
    /// The place of the next event, for the filter.
    place: EventPlace,
    /// What the filter did since records were last appended.
    filtered: FilterCounts,
}

/// Where the records of a request go.
#[derive(Clone, Debug)]
pub struct EventTarget {
    /// The queue.
    pub intake: Intake,
    /// Where they came in.
    pub source: Source,
    /// When they count as accepted.
    pub durability: Durability,
}

impl EventRecords {
    /// No records yet. `record_bytes_max` is the maximum of a record, with its attributes.
    pub fn new(target: EventTarget, ids: IdAssignment, record_bytes_max: usize) -> Self {
        let source = target.intake.filter.as_ref().map_or(0, |_| ids.source(&target.intake));
        Self {
            place: EventPlace { source, number: 0 },
            filtered: FilterCounts::default(),
            target,
            ids,
            record_bytes_max,
            durability_wait: DurabilityWait::default(),
            streams: Vec::new(),
            by_labels: HashMap::new(),
            expected: BufferedSize::default(),
            last: 0,
            buffered_records: 0,
            content_bytes: 0,
            accepted: 0,
            rejected: 0,
            rejection: None,
            failure: None,
            waits: true,
            retained: None,
        }
    }

    /// Keeps what the queue refuses, and blocks for no sync: for a connection, whose sender would not send it again. Its caller
    /// decodes no more until `flush` succeeds.
    #[must_use]
    pub fn retaining(mut self) -> Self {
        self.retained = Some(RetainedFrames::default());
        self
    }

    /// Returns a refusal at once while the disk syncs, for a thread that serves many connections.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        self.waits = false;
        self
    }

    /// Sets when the records count as accepted. Call it before the first event.
    pub(crate) fn set_durability(&mut self, durability: Durability) {
        self.target.durability = durability;
    }

    /// Makes the ids those of a batch with a key. Call it before the first event.
    pub(crate) fn set_batch(&mut self, batch: IdempotentBatch) {
        self.ids = IdAssignment::Keyed(batch);
        self.place.source = self.target.intake.filter.as_ref().map_or(0, |_| self.ids.source(&self.target.intake));
    }

    /// Counts an event that its decoder refused.
    pub fn reject(&mut self, reason: &dyn Display) {
        self.rejected += 1;
        self.rejection.get_or_insert_with(|| reason.to_string());
        let source = self.target.source.label();
        self.target.intake.queue.metrics().rejected_records.get_or_create(&source).inc();
    }

    /// Why the first event since the last call was refused.
    pub fn take_rejection(&mut self) -> Option<String> {
        self.rejection.take()
    }

    /// The number of records that the queue refused and that are kept.
    pub fn retained_records(&self) -> u64 {
        self.retained.as_ref().map_or(0, RetainedFrames::records)
    }

    /// Counts the appended records until they have their durability. Clones count together.
    pub fn durability_wait(&self) -> DurabilityWait {
        self.durability_wait.clone()
    }

    /// The batch of keyed ids.
    pub fn batch(&self) -> Option<&IdempotentBatch> {
        self.ids.batch()
    }

    /// Where the records came in.
    pub(crate) fn source(&self) -> Source {
        self.target.source
    }

    /// Records that were appended. The parts of a cut line count each.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Events that [`EventSink::push`] or the decoder has refused.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Whether the queue has refused records, so that later events are dropped.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Bytes of memory of the collected records.
    pub fn memory_bytes(&self) -> usize {
        self.streams.iter().map(|(_, buffer)| STREAM_BYTES + buffer.memory_bytes()).sum()
    }

    /// Frees the memory that is kept for further records, if none are collected.
    pub fn release_memory(&mut self) {
        if self.buffered_records == 0 {
            (self.streams, self.by_labels) = (Vec::new(), HashMap::new());
        }
    }

    /// Appends the collected records.
    ///
    /// # Errors
    /// The first [`PrepareError`] since the last call. The records that were not appended are dropped.
    pub fn flush(&mut self) -> Result<(), PrepareError> {
        self.append_all(false);
        if let Some(retained) = &mut self.retained {
            retained.append_again(&self.durability_wait, &mut self.accepted)?;
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Appends the collected records and ends the batch of keyed ids.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub fn finish(&mut self) -> Result<(), PrepareError> {
        self.append_all(true);
        self.failure.take().map_or(Ok(()), Err)
    }

    fn append_all(&mut self, is_last: bool) {
        if self.failure.is_none()
            && let Err(error) = self.try_append_all(is_last)
        {
            self.failure = Some(error);
        }
        let filtered = std::mem::take(&mut self.filtered);
        // After a refusal a sender repeats its request, and the filter what it did.
        if self.failure.is_none()
            && filtered != FilterCounts::default()
            && let Some(filter) = &self.target.intake.filter
        {
            filter.add_counts(filtered);
        }
        (self.buffered_records, self.content_bytes) = (0, 0);
        if let Some((_, first)) = self.streams.first().filter(|(_, buffer)| buffer.count() > 0) {
            self.expected = first.size();
        }
        // The one stream of most senders keeps its memory.
        match self.streams.as_mut_slice() {
            [(_, only)] if self.failure.is_none() && !is_last => only.clear(),
            _ => {
                self.streams.clear();
                self.by_labels.clear();
            }
        }
    }

    fn try_append_all(&mut self, is_last: bool) -> Result<(), PrepareError> {
        let Self { target, ids, streams, durability_wait, accepted, waits, retained, .. } = self;
        let count = streams.iter().filter(|(_, buffer)| buffer.count() > 0).count();
        let EventTarget { intake, source, durability } = target.clone();
        let with_records = streams.iter().filter(|(_, buffer)| buffer.count() > 0);
        for (number, (labels, buffer)) in (1..).zip(with_records) {
            let stream = RecordStream { intake: intake.clone(), source, labels: labels.clone(), durability };
            let is_last = is_last && number == count;
            buffer.with_records_of(Some(labels), |records| {
                let meta = stream.prepare(ids, records, None, is_last)?;
                if let Some(retained) = retained {
                    *accepted += retained.append(stream, meta, records.text, durability_wait);
                } else {
                    if *waits {
                        stream.append_with_retries(&meta, records.text, durability_wait)?;
                    } else {
                        stream.append_counted(&meta, records.text, durability_wait)?;
                    }
                    *accepted += u64::from(buffer.count());
                }
                Ok::<(), PrepareError>(())
            })?;
        }
        match ids.batch() {
            Some(batch) if is_last && count == 0 => Ok(intake.queue.end_batch(batch)?),
            _ => Ok(()),
        }
    }

    /// The buffer of a stream.
    fn stream(&mut self, labels: &Labels) -> usize {
        if self.streams.get(self.last).is_some_and(|(last, _)| last == labels) {
            return self.last;
        }
        if let Some(known) = self.by_labels.get(labels) {
            return *known;
        }
        if self.streams.len() >= STREAMS_MAX {
            self.append_all(false);
        }
        self.by_labels.insert(labels.clone(), self.streams.len());
        let expected = if self.streams.is_empty() { self.expected } else { BufferedSize::default() };
        self.streams.push((labels.clone(), RecordBuffer::with_room(FLUSH_BYTES, expected)));
        self.streams.len() - 1
    }

    /// The bytes of each part of the line of an event.
    fn part_bytes_max(&self, event: &Event<'_>) -> Result<usize, EventError> {
        let max = self.record_bytes_max;
        // An LF is before each value.
        let bytes = event.attributes.value_bytes() + event.attributes.len();
        match max.checked_sub(bytes) {
            Some(room) if event.line.len() <= room => Ok(max),
            Some(room) if room >= max.div_ceil(2) => Ok(room),
            Some(_) => Err(EventError::TooLong { bytes, max: max / 2 }),
            None => Err(EventError::TooLong { bytes, max }),
        }
    }

    fn push_filtered(
        &mut self,
        filter: &dyn EventFilter,
        labels: &Labels,
        event: &Event<'_>,
    ) -> Result<(), EventError> {
        let place = self.place;
        self.place.number += 1;
        let mut counts = std::mem::take(&mut self.filtered);
        // Records may be appended meanwhile, and with them the counts of earlier events.
        let pushed = filter.filter(labels, event, place, &mut counts, &mut |event| self.push_parts(labels, event));
        self.filtered = counts;
        pushed
    }

    fn push_parts(&mut self, labels: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        let part_bytes_max = self.part_bytes_max(event)?.max(1);
        let mut rest = event.line;
        loop {
            let (part, behind) = rest.split_at(rest.len().min(part_bytes_max));
            let flags = if behind.is_empty() { 0 } else { Flags::CUT };
            self.last = self.stream(labels);
            let Some((_, buffer)) = self.streams.get_mut(self.last) else { return Ok(()) };
            let before = buffer.content_bytes();
            buffer.push_event(part, event.attributes, flags, event.time)?;
            self.content_bytes += buffer.content_bytes() - before;
            self.buffered_records += 1;
            if self.buffered_records >= FLUSH_RECORDS || self.content_bytes >= FLUSH_BYTES {
                self.append_all(false);
            }
            if behind.is_empty() || self.has_failed() {
                return Ok(());
            }
            rest = behind;
        }
    }
}

impl EventSink for EventRecords {
    fn push(&mut self, labels: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        if self.has_failed() {
            return Ok(());
        }
        let pushed = match self.target.intake.filter.clone() {
            None => self.push_parts(labels, event),
            Some(filter) => self.push_filtered(&*filter, labels, event),
        };
        pushed.inspect_err(|error| self.reject(error))
    }
}
