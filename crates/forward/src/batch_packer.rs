//! Packs the lines of one stream into batches.

use std::sync::Arc;

use bucksaw_env::Env;
use bucksaw_protocols::AttributeList;
use bucksaw_record::{Flags, InvalidAttributes, LineSplitter, SplitLines};
use memchr::memchr;

use crate::Config;
use crate::batch_builder::{BatchBuilder, RECORD_BYTES_LIMIT, ShippedBatch};
use crate::lines::{LineEvent, LineTotals, StreamFilter};
use crate::record_maker::RecordMaker;
use crate::stream_attributes::StreamAttributes;

/// Packs one stream.
pub(crate) struct BatchPacker {
    splitter: LineSplitter,
    batch: BatchBuilder,
    /// `None` if lines are shipped as they are.
    maker: Option<(RecordMaker, StreamFilter)>,
    no_attributes: Arc<AttributeList>,
    /// The number of lines before.
    lines: u64,
}

impl BatchPacker {
    /// Packs a stream whose records have these attributes, names and values, besides those of the settings.
    ///
    /// # Errors
    /// [`InvalidAttributes`] of the names.
    pub(crate) fn new(config: &Config, env: &Env, attributes: &[(&str, &str)]) -> Result<Self, InvalidAttributes> {
        let record_bytes_max = config.record_bytes_max.clamp(1, RECORD_BYTES_LIMIT);
        let mut packer = Self {
            splitter: LineSplitter::new(record_bytes_max),
            batch: BatchBuilder::new(config, env),
            maker: None,
            no_attributes: Arc::default(),
            lines: 0,
        };
        if config.lines.is_plain() {
            packer.batch.stream_attributes = StreamAttributes::new(attributes)?;
        } else {
            let maker = RecordMaker::new(&config.lines, attributes, record_bytes_max);
            packer.maker = Some((maker, config.lines.filter.bind(&config.labels)));
        }
        Ok(packer)
    }

    /// Adds a chunk of at most a few MiB; returns the full batches.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Vec<ShippedBatch> {
        let Self { splitter, batch, maker, no_attributes, lines: number } = self;
        let lines = splitter.split(chunk);
        let full = match maker {
            None => batch.add(&lines),
            Some((maker, filter)) => add_records(batch, maker, filter, no_attributes, &lines, number),
        };
        let remainder = lines.remainder();
        splitter.advance(chunk, remainder);
        full
    }

    /// Ends the stream. A last line without a line end gets the flag `UNTERMINATED`.
    pub(crate) fn finish(&mut self) -> Vec<ShippedBatch> {
        let Self { splitter, batch, maker, no_attributes, lines: number } = self;
        let lines = splitter.finish(Flags::UNTERMINATED);
        let mut full = match (lines, maker) {
            (None, _) => Vec::new(),
            (Some(lines), None) => batch.add(&lines),
            (Some(lines), Some((maker, filter))) => add_records(batch, maker, filter, no_attributes, &lines, number),
        };
        splitter.clear();
        full.extend(self.flush());
        full
    }

    /// Whether a batch has records.
    pub(crate) fn has_pending(&self) -> bool {
        self.batch.count() > 0
    }

    /// The pending batch, if it has records.
    pub(crate) fn flush(&mut self) -> Option<ShippedBatch> {
        self.batch.finish()
    }

    /// What became of lines that were not shipped as they are.
    pub(crate) fn totals(&self) -> LineTotals {
        self.maker.as_ref().map(|(maker, _)| maker.totals()).unwrap_or_default()
    }
}

/// Adds the lines that the filter keeps; returns the batches that became full.
fn add_records(
    batch: &mut BatchBuilder,
    maker: &mut RecordMaker,
    filter: &StreamFilter,
    no_attributes: &Arc<AttributeList>,
    lines: &SplitLines<'_>,
    number: &mut u64,
) -> Vec<ShippedBatch> {
    let (mut full, mut at, mut row) = (Vec::new(), 0, 0);
    let text = lines.parts.concat();
    while let Some(rest) = text.get(at..)
        && let Some(length) = memchr(b'\n', rest)
    {
        let event = LineEvent {
            offset: *number,
            text: rest.get(..length).unwrap_or_default(),
            time: None,
            stream: None,
            attributes: no_attributes,
            flags: lines.flags.get(row),
            is_undecoded: false,
        };
        maker.push(batch, Some(filter), 0, &event);
        if batch.is_full() {
            full.extend(batch.finish());
        }
        at += length + 1;
        row += 1;
        *number += 1;
    }
    maker.confirm();
    full
}

#[cfg(test)]
mod tests {
    use bucksaw_wire::{ClientMessage, DecodeProgress};
    use proptest::prelude::*;

    use super::*;

    /// Text, first sequence number and flags of a frame.
    type FrameContents = (String, u32, Vec<(u32, u8)>);

    fn pack(config: &Config, stream: &[u8], chunk: usize) -> Vec<FrameContents> {
        let mut packer = BatchPacker::new(config, &Env::real(), &[]).unwrap();
        let mut packed: Vec<ShippedBatch> = stream.chunks(chunk).flat_map(|chunk| packer.push(chunk)).collect();
        packed.extend(packer.finish());
        let open = |packed: &ShippedBatch| {
            let Ok(DecodeProgress::Complete(ClientMessage::Batch(frame), used)) =
                ClientMessage::decode(&packed.frame, u32::MAX)
            else {
                panic!("no batch")
            };
            let rows = frame.rows().unwrap();
            assert_eq!((used, rows.count, frame.text().len()), (packed.frame.len(), packed.records, packed.text_bytes));
            let text = String::from_utf8(frame.text().to_vec()).unwrap();
            (text, frame.header.first_id.sequence(), rows.flags.iter().collect())
        };
        packed.iter().map(open).collect()
    }

    #[test]
    fn batches_have_their_size_and_flags() {
        let config = Config { record_bytes_max: 4, batch_bytes: 8, ..Config::default() };
        let check = |stream: &str, chunk: usize, want: &[FrameContents]| {
            assert_eq!(pack(&config, stream.as_bytes(), chunk), want, "{stream:?}");
        };
        let batch = |text: &str, first: u32, flags: &[(u32, u8)]| (text.to_owned(), first, flags.to_vec());
        check("", 9, &[]);
        check("a\nb\n", 9, &[batch("a\nb\n", 0, &[])]);
        check("aa\nbb\ncc\ndd\n", 3, &[batch("aa\nbb\n", 0, &[]), batch("cc\ndd\n", 2, &[])]);
        check(
            "abcdef\ng",
            9,
            &[batch("abcd\nef\n", 0, &[(0, Flags::CUT)]), batch("g\n", 2, &[(0, Flags::UNTERMINATED)])],
        );
        check("x\nab", 9, &[batch("x\nab\n", 0, &[(1, Flags::UNTERMINATED)])]);
    }

    #[test]
    fn lines_have_the_time_that_they_state_or_that_of_the_line_before() {
        let line_zone = Some(bucksaw_record::time::TimeZone::UTC);
        let config = Config { record_bytes_max: 24, line_zone, ..Config::default() };
        let mut packer = BatchPacker::new(&config, &Env::real(), &[]).unwrap();
        let chunks =
            [&b"none\n2023-11-14 22:13:20.5 x\n\tat y\n2023-11-14 22:1"[..], b"3:21 long 2001-01-01 00:00:00\n"];
        assert!(chunks.iter().all(|chunk| packer.push(chunk).is_empty()));
        let packed = packer.finish();
        let Ok(DecodeProgress::Complete(ClientMessage::Batch(frame), _)) =
            ClientMessage::decode(&packed[0].frame, u32::MAX)
        else {
            panic!("no batch")
        };
        let rows = frame.rows().unwrap();
        let times: Vec<u64> = (0..rows.count).map(|row| rows.id(row).unwrap().time().0).collect();
        let batch = frame.header.first_id.time().0;
        let (first, second) = (1_700_000_000_500, 1_700_000_001_000);
        assert_eq!(times, [batch, first, first, second, second]);
    }

    #[test]
    fn standard_input_is_filtered() {
        let mut config = Config { batch_bytes: 20, ..Config::default() };
        config.lines.filter.add_drop("debug").unwrap();
        config.lines.filter.add_redaction("s/secret/***/").unwrap();
        config.lines.add_attribute("team=shop").unwrap();
        let packed = pack(&config, b"one\na debug line\ntwo secret\nthree", 5);
        let texts: Vec<&str> = packed.iter().map(|(text, _, _)| text.as_str()).collect();
        assert_eq!(texts, ["one\nshop\ntwo ***\nshop\n", "three\nshop\n"]);
        assert_eq!(packed[1].2, [(0, Flags::UNTERMINATED)]);
        let mut packer = BatchPacker::new(&config, &Env::real(), &[]).unwrap();
        packer.push(b"debug\nsecret\n");
        let totals = packer.totals();
        assert_eq!((totals.dropped, totals.redacted), (1, 1));
    }

    proptest! {
        #[test]
        fn batches_contain_every_byte_and_number_every_record(
            stream in "[ab\\n]{0,80}",
            chunk in 1_usize..30,
            record_bytes_max in 1_usize..9,
            batch_bytes in 1_usize..40,
        ) {
            let config = Config { record_bytes_max, batch_bytes, ..Config::default() };
            let mut joined = String::new();
            let mut next = 0;
            for (text, first, flags) in pack(&config, stream.as_bytes(), chunk) {
                prop_assert_eq!(first, next);
                for (row, line) in (0..).zip(text.split_inclusive('\n')) {
                    let has_no_line_end = flags.iter().any(|(flagged, _)| *flagged == row);
                    joined.push_str(if has_no_line_end { &line[..line.len() - 1] } else { line });
                    next += 1;
                }
            }
            prop_assert_eq!(joined, stream);
        }
    }
}
