//! The records of one connection's lines on their way into the queue: their stream, their ids.

use std::sync::Arc;

use bucksaw_ingest::{FrameRecords, IngestError, Source, SourceLabels};
use bucksaw_record::{Flags, Id, IdAllocator, Labels, SplitLines};
use bucksaw_segment::RowMeta;

use crate::listener_state::ListenerState;

/// One stream of lines.
pub(crate) struct LineStream {
    shared: Arc<ListenerState>,
    labels: Labels,
    id_allocator: IdAllocator,
}

/// Why records were not taken, and the id that they have to be tried with again: should they be found on the disk after
/// all, the second time is no duplicate.
pub(crate) struct RefusedAppend {
    pub(crate) first_id: Id,
    pub(crate) refusal: IngestError,
}

impl LineStream {
    pub(crate) fn new(shared: &Arc<ListenerState>, labels: Labels) -> Self {
        Self { shared: Arc::clone(shared), labels, id_allocator: IdAllocator::new(shared.new_producer()) }
    }

    /// Appends what was cut, with ids from `first` on when it was tried before.
    pub(crate) fn append(&mut self, cut: &SplitLines<'_>, first: Option<Id>) -> Result<(), RefusedAppend> {
        if cut.count == 0 {
            return Ok(());
        }
        let now = self.shared.now();
        let first = first.unwrap_or_else(|| self.next_first_id(cut.count));
        let mut row_meta = Vec::new();
        let layout_bits = if cut.flags.is_empty() {
            0
        } else {
            RowMeta::with_flags(cut.flags.clone()).encode(first.time(), &mut row_meta)
        };
        let records = FrameRecords {
            source: Source::Tcp,
            labels: &self.labels,
            first_id: first,
            count: cut.count,
            accepted: now,
            layout_bits,
            row_meta: &row_meta,
            text: &cut.parts,
        };
        let queue = &self.shared.intake.queue;
        // Lines have no acknowledgement: nobody is there to be told.
        queue
            .append(self.shared.durability, &records, |_| {})
            .map_err(|refusal| RefusedAppend { first_id: first, refusal })?;
        self.id_allocator.advance(first, cut.count);
        let cuts = cut.flags.iter().filter(|(_, bits)| bits & Flags::CUT != 0).count();
        if cuts > 0 {
            let by = SourceLabels { source: Source::Tcp.name() };
            queue.metrics().cut_records.get_or_create(&by).inc_by(cuts as u64);
        }
        Ok(())
    }

    fn next_first_id(&mut self, count: u32) -> Id {
        let now = self.shared.now();
        if let Some(first) = self.id_allocator.next_first_id(now, count) {
            return first;
        }
        let producer = self.shared.new_producer();
        self.id_allocator = IdAllocator::new(producer);
        Id::new(now, producer, 0)
    }
}
