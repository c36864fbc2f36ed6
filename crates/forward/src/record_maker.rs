//! Makes records of events: filters, redacts, adds attributes, cuts what is too long.

use bucksaw_protocols::AttributeList;
use bucksaw_record::{Flags, RecordView};

use crate::batch_builder::BatchBuilder;
use crate::lines::{LineConfig, LineEvent, LineEventSink, LineTotals, ShippingRules, StreamFilter, Verdict};
use crate::record_attributes::AttributeSets;

/// Bytes of a batch of a file, its attributes included, after which the rest of a chunk waits.
///
/// A node takes frames of 4 MiB. This leaves room for a last record, with what a redaction adds to it, and for times.
const BATCH_BYTES: usize = 2 << 20;

/// Records of a batch of a file, after which the rest of a chunk waits: the time of each takes memory too.
const BATCH_RECORDS: u32 = 64 << 10;

/// Makes the records of any number of streams.
#[derive(Debug)]
pub(crate) struct RecordMaker {
    rules: ShippingRules,
    sets: AttributeSets,
    record_bytes_max: usize,
    /// The text of a record, for filters.
    record: Vec<u8>,
    redacted: Vec<u8>,
    spare: Vec<u8>,
    /// The counts of events that may be read again.
    unconfirmed: LineTotals,
    totals: LineTotals,
}

/// Makes records of the events of one file.
pub(crate) struct FileRecordSink<'a> {
    pub(crate) maker: &'a mut RecordMaker,
    pub(crate) batch: &'a mut BatchBuilder,
    /// `None` if every record is kept.
    pub(crate) filter: Option<&'a StreamFilter>,
    /// The number of the file.
    pub(crate) source: u64,
}

impl RecordMaker {
    /// A maker of records whose lines have at most `record_bytes_max` bytes. They have these attributes besides those of the
    /// settings.
    pub(crate) fn new(config: &LineConfig, attributes: &[(&str, &str)], record_bytes_max: usize) -> Self {
        let of_stream = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self {
            rules: config.filter.clone(),
            sets: AttributeSets::new(of_stream.chain(config.attributes.iter().cloned()).collect()),
            record_bytes_max,
            record: Vec::new(),
            redacted: Vec::new(),
            spare: Vec::new(),
            unconfirmed: LineTotals::default(),
            totals: LineTotals::default(),
        }
    }

    /// Adds the records of an event, unless the filter drops it.
    pub(crate) fn push(
        &mut self,
        batch: &mut BatchBuilder,
        filter: Option<&StreamFilter>,
        source: u64,
        event: &LineEvent<'_>,
    ) {
        let Self { rules, sets, record_bytes_max, record, redacted, spare, unconfirmed, .. } = self;
        let attributes = sets.get(event.stream, event.attributes);
        unconfirmed.undecoded += u64::from(event.is_undecoded);
        if let Some(filter) = filter {
            record.clear();
            record.extend_from_slice(event.text);
            if let Some(attributes) = attributes {
                record.push(b'\n');
                record.extend_from_slice(&attributes.values);
                record.pop();
            }
            let view = RecordView::new(record, attributes.map(|attributes| attributes.shape()));
            match filter.verdict(view, source, event.offset) {
                Verdict::Kept => {}
                Verdict::Dropped => {
                    unconfirmed.dropped += 1;
                    return;
                }
                Verdict::SampledOut => {
                    unconfirmed.sampled_out += 1;
                    return;
                }
            }
        }
        let (mut rest, mut last_flags) = (event.text, event.flags);
        // A redaction may lengthen a line without limit, and a node would refuse the batch.
        let bytes_max = event.text.len().max(*record_bytes_max);
        if rules.redact(event.text, bytes_max, redacted, spare) {
            unconfirmed.redacted += 1;
            if redacted.len() > bytes_max {
                redacted.truncate(bytes_max);
                last_flags = Flags::CUT;
            }
            rest = redacted;
        }
        loop {
            let (part, behind) = rest.split_at(rest.len().min(*record_bytes_max));
            let flags = if behind.is_empty() { last_flags } else { Flags::CUT };
            batch.push_record(part, attributes, flags, event.time);
            if behind.is_empty() {
                return;
            }
            rest = behind;
        }
    }

    /// Counts what was made since the last call.
    pub(crate) fn confirm(&mut self) {
        self.totals += std::mem::take(&mut self.unconfirmed);
    }

    /// Forgets what was made since the last call of [`Self::confirm`]: it is made again.
    pub(crate) fn retract(&mut self) {
        self.unconfirmed = LineTotals::default();
    }

    /// The confirmed counts.
    pub(crate) fn totals(&self) -> LineTotals {
        self.totals
    }
}

impl LineEventSink for FileRecordSink<'_> {
    fn push(&mut self, event: &LineEvent<'_>) {
        self.maker.push(self.batch, self.filter, self.source, event);
    }

    fn added_bytes(&self, attributes: &AttributeList) -> usize {
        self.maker.sets.base_bytes() + attributes.value_bytes() + attributes.len()
    }

    fn room(&self) -> usize {
        if self.batch.count() < BATCH_RECORDS { BATCH_BYTES.saturating_sub(self.batch.text_bytes()) } else { 0 }
    }
}
