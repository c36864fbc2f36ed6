//! Packs the chunks of many files, each into a batch of its own.

use std::sync::Arc;

use bucksaw_env::Env;
use bucksaw_record::time::LineTimeReader;
use bucksaw_record::{Flags, Labels, LineSplitter, SplitLines};

use crate::Config;
use crate::batch_builder::{BatchBuilder, RECORD_BYTES_LIMIT, ShippedBatch};
use crate::lines::{ChunkText, EventReader, FileLines, LineTotals, StreamFilter};
use crate::record_maker::{FileRecordSink, RecordMaker};

/// Packs the chunks of many files.
pub(crate) struct FilePacker {
    splitter: LineSplitter,
    events: EventReader,
    maker: RecordMaker,
    batch: BatchBuilder,
    /// Whether lines of a file of lines are shipped as they are.
    is_plain: bool,
}

/// The stream of a chunk.
pub(crate) struct FileStreamRef<'a> {
    pub(crate) labels: &'a Arc<Labels>,
    /// The times of the lines before.
    pub(crate) line_times: &'a mut Option<LineTimeReader>,
    pub(crate) lines: &'a mut FileLines,
    /// `None` if every record is kept.
    pub(crate) filter: Option<&'a StreamFilter>,
    /// The number of the file.
    pub(crate) source: u64,
}

/// What became of a chunk.
#[derive(Debug)]
pub(crate) struct PackedChunk {
    /// Bytes of the lines and events that need not be delivered again.
    pub(crate) consumed: usize,
    /// Their records, unless all were dropped.
    pub(crate) batch: Option<ShippedBatch>,
    /// Whether the rest has whole lines, for the next batch.
    pub(crate) has_more: bool,
}

impl FilePacker {
    pub(crate) fn new(config: &Config, env: &Env) -> Self {
        let record_bytes_max = config.record_bytes_max.clamp(1, RECORD_BYTES_LIMIT);
        Self {
            splitter: LineSplitter::new(record_bytes_max),
            events: EventReader::new(config.lines.multiline.clone(), record_bytes_max),
            maker: RecordMaker::new(&config.lines, &[], record_bytes_max),
            batch: BatchBuilder::new(config, env),
            is_plain: config.lines.is_plain(),
        }
    }

    /// Packs the whole events of a chunk. At the end of a file the last line needs no line end. Call [`Self::confirm`] when the
    /// batch is in the buffer; otherwise the chunk is packed again.
    pub(crate) fn pack(&mut self, stream: FileStreamRef<'_>, chunk: ChunkText<'_>) -> PackedChunk {
        let FileStreamRef { labels, line_times, lines, filter, source } = stream;
        self.maker.retract();
        self.batch.labels = Arc::clone(labels);
        std::mem::swap(&mut self.batch.line_times, line_times);
        let (consumed, has_more) = if self.is_plain && lines.is_text() {
            (self.pack_lines(chunk.text, chunk.is_end), false)
        } else {
            let mut sink = FileRecordSink { maker: &mut self.maker, batch: &mut self.batch, filter, source };
            let read = self.events.read(lines, chunk, &mut sink);
            (read.consumed, read.is_cut_short)
        };
        let batch = self.batch.finish();
        std::mem::swap(&mut self.batch.line_times, line_times);
        PackedChunk { consumed, batch, has_more }
    }

    /// Counts what became of the last chunk.
    pub(crate) fn confirm(&mut self) {
        self.maker.confirm();
    }

    /// What became of lines that were not shipped as they are.
    pub(crate) fn totals(&self) -> LineTotals {
        self.maker.totals()
    }

    fn pack_lines(&mut self, text: &[u8], is_end: bool) -> usize {
        let lines = self.splitter.split(text);
        let consumed = lines.chunk_bytes();
        self.batch.append(&lines);
        match text.get(consumed..).filter(|rest| is_end && !rest.is_empty()) {
            Some(rest) => {
                self.batch.append(&SplitLines::whole(rest, Flags::UNTERMINATED));
                text.len()
            }
            None => consumed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bucksaw_protocols::container::ContainerFormat;
    use bucksaw_record::RecordView;
    use bucksaw_wire::{ClientMessage, DecodeProgress};

    use super::*;

    /// Each record as `milliseconds line|name=value;…|flags`.
    fn records(batch: &ShippedBatch) -> Vec<String> {
        let Ok(DecodeProgress::Complete(ClientMessage::Batch(frame), _)) =
            ClientMessage::decode(&batch.frame, u32::MAX)
        else {
            panic!("no batch")
        };
        let rows = frame.rows().unwrap();
        let (mut shown, mut rest) = (Vec::new(), frame.text());
        for row in 0..rows.count {
            let lines = rows.lines.as_ref().map_or(1, |lines| lines[row as usize]) as usize;
            let end = memchr::memchr_iter(b'\n', rest).nth(lines - 1).unwrap();
            let view = RecordView::new(&rest[..end], rows.attributes.get(row));
            rest = &rest[end + 1..];
            let attributes: Vec<String> = view
                .attributes()
                .iter()
                .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
                .collect();
            let time = rows.id(row).unwrap().time().0;
            let line = view.line().escape_ascii();
            shown.push(format!("{time} {line}|{}|{}", attributes.join(";"), rows.flags.get(row)));
        }
        assert!(rest.is_empty());
        shown
    }

    fn pack(config: &Config, format: Option<ContainerFormat>, text: &[u8]) -> (Vec<String>, LineTotals) {
        let (batches, totals) = pack_batches(config, format, text);
        (batches.iter().flat_map(records).collect(), totals)
    }

    fn pack_batches(config: &Config, format: Option<ContainerFormat>, text: &[u8]) -> (Vec<ShippedBatch>, LineTotals) {
        let mut packer = FilePacker::new(config, &Env::real());
        let labels = Arc::new(config.labels.clone());
        let filter = config.lines.filter.bind(&labels);
        let mut line_times = config.line_zone.clone().map(LineTimeReader::new);
        let mut lines = FileLines::new(format);
        let (mut at, mut batches) = (0, Vec::new());
        while at < text.len() {
            let stream = FileStreamRef {
                labels: &labels,
                line_times: &mut line_times,
                lines: &mut lines,
                filter: Some(&filter),
                source: 7,
            };
            let chunk = ChunkText {
                text: &text[at..],
                offset: at as u64,
                is_end: true,
                is_full: false,
                waited: Duration::ZERO,
                wait: Duration::from_secs(1),
                now: Duration::ZERO,
            };
            let packed = packer.pack(stream, chunk);
            packer.confirm();
            assert!(packed.consumed > 0 && packed.has_more == (at + packed.consumed < text.len()));
            at += packed.consumed;
            batches.extend(packed.batch);
        }
        (batches, packer.totals())
    }

    #[test]
    fn records_have_the_time_stream_and_attributes_of_their_lines() {
        let mut config = Config::default();
        config.lines.add_attribute("team=shop").unwrap();
        let text = br#"{"log":"one\n","stream":"stdout","time":"2023-11-14T22:13:20Z"}
{"log":"two\n","stream":"stderr","attrs":{"tag":"web"},"time":"2023-11-14T22:13:19.5Z"}
2023-11-14T22:13:21Z stdout F three
"#;
        let (shown, totals) = pack(&config, Some(ContainerFormat::Any), text);
        assert_eq!(
            shown,
            [
                "1700000000000 one|log.iostream=stdout;team=shop|0",
                "1699999999500 two|tag=web;log.iostream=stderr;team=shop|0",
                "1700000001000 three|log.iostream=stdout;team=shop|0",
            ]
        );
        assert_eq!(totals, LineTotals::default());
    }

    #[test]
    fn events_are_filtered_redacted_and_cut() {
        let mut config = Config { record_bytes_max: 12, ..Config::default() };
        config.lines.filter.add_drop("log.iostream=stderr").unwrap();
        config.lines.filter.add_sample("0:chatty").unwrap();
        config.lines.filter.add_redaction("s/secret/?/").unwrap();
        let text = b"2023-11-14T22:13:20Z stderr F gone\n2023-11-14T22:13:20Z stdout F a secret\nnot decoded at all\n\
            2023-11-14T22:13:20Z stdout F chatty\n";
        let (shown, totals) = pack(&config, Some(ContainerFormat::Cri), text);
        let shown: Vec<&str> = shown.iter().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(shown, ["a ?|log.iostream=stdout|0", "not decoded ||1", "at all||0"]);
        let LineTotals { undecoded, dropped, sampled_out, redacted } = totals;
        assert_eq!((undecoded, dropped, sampled_out, redacted), (1, 1, 1, 1));
    }

    #[test]
    fn what_a_redaction_adds_is_cut() {
        let mut config = Config { record_bytes_max: 12, ..Config::default() };
        config.lines.filter.add_redaction("s/a/bbb/").unwrap();
        let (shown, _) = pack(&config, None, b"xaaaa\nxaaaaaaa\nx\n");
        let shown: Vec<&str> = shown.iter().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(shown, ["xbbbbbbbbbbb||1", "xbbbbbbbbbbb||1", "x||0"]);
    }

    #[test]
    fn a_batch_fits_into_the_frame_of_a_node() {
        let mut config = Config::default();
        config.lines.filter.add_redaction(&format!("s/a/{}/", "b".repeat(60))).unwrap();
        let text = ["a\n".repeat(300_000), format!("{}\n", "a".repeat(1 << 20)).repeat(3)].concat();
        let (batches, _) = pack_batches(&config, None, text.as_bytes());
        let longest = batches.iter().map(|batch| batch.frame.len()).max();
        assert!(longest.is_some_and(|bytes| bytes <= 4 << 20), "{longest:?}");
    }

    #[test]
    fn an_event_of_several_lines_has_the_time_of_its_first() {
        let line_zone = Some(bucksaw_record::time::TimeZone::UTC);
        let mut config = Config { line_zone, ..Config::default() };
        config.lines.multiline = crate::Multiline::StackTraces;
        let text = b"2023-11-14 22:13:20 failed\n\tat 2001-01-01 00:00:00\nno time\n2023-11-14 22:13:21 next";
        let (shown, _) = pack(&config, None, text);
        assert_eq!(
            shown,
            [
                "1700000000000 2023-11-14 22:13:20 failed\\n\\tat 2001-01-01 00:00:00||0",
                "1700000000000 no time||0",
                "1700000001000 2023-11-14 22:13:21 next||2",
            ]
        );
    }

    #[test]
    fn a_chunk_that_grows_by_its_attributes_becomes_several_batches() {
        let mut config = Config::default();
        config.lines.add_attribute(&format!("a={}", "x".repeat(4_000))).unwrap();
        let (shown, _) = pack(&config, None, &b"\n".repeat(3_000));
        assert_eq!(shown.len(), 3_000);
    }
}
