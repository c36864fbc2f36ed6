//! Which ids the records of a source get.

use std::borrow::Cow;

use bucksaw_ingest::{IdempotentBatch, IngestError};
use bucksaw_record::{Id, IdAllocator, Millis};
use bucksaw_segment::RowMeta;

use super::records::Records;
use super::target::Intake;

/// Why records get no ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// The queue does not accept the section of an idempotent batch.
    #[error(transparent)]
    Refused(#[from] IngestError),
    /// The producer has no sequence numbers left.
    #[error("a body of more than 4,294,967,295 records: send several")]
    SequenceExhausted,
}

impl From<PrepareError> for IngestError {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Refused(refusal) => refusal,
            PrepareError::SequenceExhausted => Self::Io(error.to_string()),
        }
    }
}

/// Assigns ids to the records of one connection or request.
#[derive(Debug)]
pub enum IdAssignment {
    /// Ids of the time of each append, with consecutive sequence numbers; for lines of a connection.
    Arrival(IdAllocator),
    /// Consecutive ids from this one on; for a request.
    Consecutive(Id),
    /// Ids from the key and the content of a batch, so that a retry gets the same.
    Keyed(IdempotentBatch),
    /// Consecutive ids from this one on, which the source derives from where it read the records, as it does the times of all
    /// of them. The times are not compared with the clock: records that are read again must get the same ids.
    Derived(Id),
}

/// The first id of some records, and the time with which their event times are compared.
pub(super) struct AssignedIds {
    pub(super) first_id: Id,
    pub(super) now: Millis,
}

impl IdAssignment {
    /// Ids for the lines of a connection, from a producer of its own.
    pub fn arrival(intake: &Intake) -> Self {
        Self::Arrival(IdAllocator::new(intake.new_producer()))
    }

    /// Ids for the records of a request that begins now.
    pub fn consecutive(intake: &Intake) -> Self {
        Self::Consecutive(Id::new(intake.now(), intake.new_producer(), 0))
    }

    /// The batch of keyed ids.
    pub fn batch(&self) -> Option<&IdempotentBatch> {
        match self {
            Self::Arrival(_) | Self::Consecutive(_) | Self::Derived(_) => None,
            Self::Keyed(batch) => Some(batch),
        }
    }

    /// A number of the request or connection, for the places of its events. That of a batch with a key is the same at each retry.
    pub(super) fn source(&self, intake: &Intake) -> u64 {
        match self {
            Self::Arrival(_) => intake.new_producer().bits(),
            Self::Consecutive(first) | Self::Derived(first) => first.producer().bits(),
            Self::Keyed(batch) => batch.key_hash(),
        }
    }

    pub(super) fn assign(
        &mut self,
        intake: &Intake,
        records: &Records<'_>,
        is_last: bool,
    ) -> Result<AssignedIds, PrepareError> {
        let now = intake.now();
        match self {
            Self::Arrival(allocator) => {
                let first_id = allocator.next_first_id(now, records.count).unwrap_or_else(|| {
                    let producer = intake.new_producer();
                    *allocator = IdAllocator::new(producer);
                    Id::new(now, producer, 0)
                });
                allocator.advance(first_id, records.count);
                Ok(AssignedIds { first_id, now })
            }
            Self::Consecutive(next) => {
                let first_id = *next;
                *next = first_id.checked_add(records.count).ok_or(PrepareError::SequenceExhausted)?;
                Ok(AssignedIds { first_id, now })
            }
            Self::Derived(first_id) => {
                // The last id may be the last one of its producer.
                let last = records.count.saturating_sub(1);
                first_id.checked_add(last).ok_or(PrepareError::SequenceExhausted)?;
                Ok(AssignedIds { first_id: *first_id, now: Millis::MAX })
            }
            Self::Keyed(batch) => {
                intake.tenant_ids().into_iter().for_each(|ids| batch.set_scope(ids));
                let flags = records.flags.iter();
                let flags: Vec<u8> = flags.flat_map(|(row, bits)| [&row.to_le_bytes()[..], &[bits]].concat()).collect();
                let text = match records.text {
                    [text] => Cow::Borrowed(*text),
                    parts => Cow::Owned(parts.concat()),
                };
                // Only facts that are not in the text are added, so the ids of a batch of lines stay the same across
                // versions.
                let beyond_text = beyond_text(records);
                let section = [&*text, &flags, &beyond_text];
                let parts = if beyond_text.is_empty() { section.get(..2).unwrap_or_default() } else { &section };
                let first_id = intake.queue.assign_ids(batch, parts, is_last)?;
                if first_id.checked_add(records.count).is_none() {
                    return Err(PrepareError::SequenceExhausted);
                }
                // The event times of a retry are compared with the same time as those of the first try.
                Ok(AssignedIds { first_id, now: batch.base_time().unwrap_or(first_id.time()) })
            }
        }
    }
}

/// What determines records besides their text and flags: lines and attributes, and the labels and times of a batch that states
/// them elsewhere. Empty for lines.
fn beyond_text(records: &Records<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if records.lines.is_none() && records.batch_labels.is_none() {
        return bytes;
    }
    let stated = |time: &Option<_>| time.unwrap_or((Millis(0), 0));
    let times = records.batch_labels.map(|_| records.times.iter().map(stated).collect());
    let (lines, attributes) = (records.lines.map(<[u32]>::to_vec), records.attributes.clone());
    RowMeta { times, lines, attributes, ..RowMeta::default() }.encode(Millis(0), &mut bytes);
    records.batch_labels.iter().for_each(|labels| labels.encode(&mut bytes));
    bytes
}
