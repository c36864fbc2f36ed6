//! The records of one connection's lines on their way into the queue: their stream, their ids.

use std::sync::Arc;

use bucksaw_ingest::{BySource, Records, Refusal, Source};
use bucksaw_record::{Cut, Id, Labels, Marks, Numbering};
use bucksaw_segment::Sides;

use crate::shared::Shared;

/// One stream of lines.
pub(crate) struct Stream {
    shared: Arc<Shared>,
    labels: Labels,
    numbering: Numbering,
}

/// Why records were not taken, and the id that they have to be tried with again: should they be found on the disk after
/// all, the second time is no duplicate.
pub(crate) struct Refused {
    pub(crate) first: Id,
    pub(crate) refusal: Refusal,
}

impl Stream {
    pub(crate) fn new(shared: &Arc<Shared>, labels: Labels) -> Self {
        Self { shared: Arc::clone(shared), labels, numbering: Numbering::new(shared.new_producer()) }
    }

    /// Appends what was cut, with ids from `first` on when it was tried before.
    pub(crate) fn append(&mut self, cut: &Cut<'_>, first: Option<Id>) -> Result<(), Refused> {
        if cut.count == 0 {
            return Ok(());
        }
        let now = self.shared.now();
        let first = first.unwrap_or_else(|| self.first(cut.count));
        let mut sides = Vec::new();
        let flags =
            if cut.marks.is_empty() { 0 } else { Sides::marked(cut.marks.clone()).encode(first.at(), &mut sides) };
        let records = Records {
            source: Source::Tcp,
            labels: &self.labels,
            first,
            count: cut.count,
            accepted: now,
            flags,
            sides: &sides,
            text: &cut.parts,
        };
        let queue = &self.shared.intake.queue;
        // Lines have no acknowledgement: nobody is there to be told.
        queue.append(self.shared.durability, &records, |_| {}).map_err(|refusal| Refused { first, refusal })?;
        self.numbering.advance(first, cut.count);
        let cuts = cut.marks.iter().filter(|(_, bits)| bits & Marks::CUT != 0).count();
        if cuts > 0 {
            let by = BySource { source: Source::Tcp.name() };
            queue.metrics().cut_records.get_or_create(&by).inc_by(cuts as u64);
        }
        Ok(())
    }

    fn first(&mut self, count: u32) -> Id {
        let now = self.shared.now();
        if let Some(first) = self.numbering.first(now, count) {
            return first;
        }
        let producer = self.shared.new_producer();
        self.numbering = Numbering::new(producer);
        Id::new(now, producer, 0)
    }
}
