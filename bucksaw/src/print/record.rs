//! Records as `query` and `tail` print them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bucksaw_record::Labels;
use memchr::{memchr_iter, memrchr};

use super::out::Out;
use super::sanitise::{SanitisingStream, sanitise_json};
use crate::args::OutputFormat;

/// Longest record in JSON, in bytes: many times what a node accepts.
const OBJECT_BYTES_MAX: usize = 64 << 20;

/// Prints records, sanitised on a terminal and unchanged in a pipe.
#[derive(Debug)]
pub(crate) struct RecordPrinter<W: Write = std::fs::File> {
    out: Out<W>,
    format: OutputFormat,
    /// Number of records that may still be printed.
    remaining: u64,
    /// The begin of an object whose end has not arrived.
    partial_object: Vec<u8>,
    pieces: SanitisingStream,
    /// Whether anything was printed.
    pub(crate) printed: bool,
}

/// One record in the JSON of a node.
#[derive(serde::Deserialize)]
struct JsonRecord<'a> {
    #[serde(borrow, default)]
    time: Cow<'a, str>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(borrow)]
    line: Option<Cow<'a, str>>,
    line_base64: Option<String>,
}

impl<W: Write> RecordPrinter<W> {
    /// Prints at most `max` records that arrive as JSON.
    pub(crate) fn new(out: Out<W>, format: OutputFormat, max: Option<u64>) -> Self {
        Self {
            out,
            format,
            remaining: max.unwrap_or(u64::MAX),
            partial_object: Vec::new(),
            pieces: SanitisingStream::default(),
            printed: false,
        }
    }

    /// Whether the limit is reached.
    pub(crate) const fn is_full(&self) -> bool {
        self.remaining == 0
    }

    /// Prints part of the records as received.
    pub(crate) fn raw(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        self.printed |= !piece.is_empty();
        if !self.out.terminal {
            return self.out.write(piece);
        }
        let mut shown = Vec::with_capacity(piece.len());
        self.pieces.push(piece, &mut shown);
        self.out.write(&shown)
    }

    /// Prints part of the records as JSON, one object per line.
    pub(crate) fn json(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        let Some(end) = memrchr(b'\n', piece).map(|at| at + 1) else {
            return self.buffer_partial(piece);
        };
        let (mut whole, partial) = piece.split_at(end);
        let mut buffered = std::mem::take(&mut self.partial_object);
        if !buffered.is_empty() {
            buffered.extend_from_slice(whole);
            whole = &buffered;
        }
        let mut start = 0;
        for end in memchr_iter(b'\n', whole) {
            let object = whole.get(start..end).unwrap_or_default();
            start = end + 1;
            if object.is_empty() {
                continue;
            }
            if self.remaining == 0 {
                return Ok(());
            }
            self.remaining -= 1;
            self.printed = true;
            self.object(object)?;
        }
        self.buffer_partial(partial)
    }

    /// Passes what was printed to the reader.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        self.out.flush()
    }

    /// Prints what was held back, and flushes.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        if !self.partial_object.is_empty() {
            self.json(b"\n")?;
        }
        let mut shown = Vec::new();
        self.pieces.finish(&mut shown);
        self.out.write(&shown)?;
        self.out.flush()
    }

    fn buffer_partial(&mut self, partial: &[u8]) -> anyhow::Result<()> {
        if self.partial_object.len() + partial.len() > OBJECT_BYTES_MAX {
            bail!("the node sent a record of more than {OBJECT_BYTES_MAX} bytes");
        }
        self.partial_object.extend_from_slice(partial);
        Ok(())
    }

    fn object(&mut self, object: &[u8]) -> anyhow::Result<()> {
        if self.format == OutputFormat::Json {
            let mut shown = Vec::new();
            if self.out.terminal {
                sanitise_json(object, &mut shown);
            }
            self.out.write(if self.out.terminal { &shown } else { object })?;
            return self.out.write(b"\n");
        }
        let record: JsonRecord<'_> =
            serde_json::from_slice(object).context("the node sent a record that cannot be read")?;
        let line = match (&record.line, &record.line_base64) {
            (Some(line), _) => Cow::Borrowed(line.as_bytes()),
            (None, Some(line)) => {
                Cow::Owned(BASE64_STANDARD.decode(line).context("the node sent a line in invalid Base64")?)
            }
            (None, None) => bail!("the node sent a record without a line"),
        };
        if self.format == OutputFormat::Text {
            let labels = format!("{{{}}}", format_labels(&record.labels));
            let time = self.out.colour.dim(&self.out.sanitised(record.time.as_bytes()));
            let labels = self.out.colour.cyan(&self.out.sanitised(labels.as_bytes()));
            self.out.write(&[&time[..], b" ", &labels, b" "].concat())?;
        }
        self.out.write_sanitised(&line)?;
        self.out.write(b"\n")
    }
}

/// Labels as on the command line; labels that are invalid there as received.
fn format_labels(labels: &BTreeMap<String, String>) -> String {
    let pairs = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    match Labels::new(pairs) {
        Ok(labels) => labels.to_string(),
        Err(_) => labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::Colour;
    use proptest::prelude::*;

    const TWO: &str = concat!(
        r#"{"id":"x","time":"2026-11-20T23:10:00.000001Z","labels":{"b":"2","a":"x y"},"line":"one\u001b[1m"}"#,
        "\n",
        r#"{"time":"2026-11-20T23:10:01.000000Z","line_base64":"/3R3bw==","cut":true}"#,
        "\n",
    );

    fn printed(
        format: OutputFormat,
        terminal: bool,
        max: Option<u64>,
        print: impl Fn(&mut RecordPrinter<Vec<u8>>),
    ) -> Vec<u8> {
        let mut records = RecordPrinter::new(Out::new(Vec::new(), terminal, Colour::Off), format, max);
        print(&mut records);
        records.finish().unwrap();
        records.out.written().clone()
    }

    #[test]
    fn each_format_is_printed() {
        let check = |format: OutputFormat, terminal: bool, want: &[u8]| {
            let got = printed(format, terminal, None, |records| records.json(TWO.as_bytes()).unwrap());
            assert_eq!(got.escape_ascii().to_string(), want.escape_ascii().to_string(), "{format:?} {terminal}");
        };
        check(OutputFormat::Json, false, TWO.as_bytes());
        check(OutputFormat::Json, true, TWO.as_bytes());
        check(OutputFormat::Raw, false, b"one\x1b[1m\n\xfftwo\n");
        check(OutputFormat::Raw, true, b"one\\x1b[1m\n\\xfftwo\n");
        let times = ["2026-11-20T23:10:00.000001Z {a=\"x y\",b=2} one", "\n2026-11-20T23:10:01.000000Z {} "];
        check(
            OutputFormat::Text,
            false,
            &[times[0].as_bytes(), b"\x1b[1m", times[1].as_bytes(), b"\xfftwo\n"].concat(),
        );
        check(
            OutputFormat::Text,
            true,
            &[times[0].as_bytes(), b"\\x1b[1m", times[1].as_bytes(), b"\\xfftwo\n"].concat(),
        );
    }

    #[test]
    fn times_and_labels_are_coloured() {
        let mut records = RecordPrinter::new(Out::new(Vec::new(), true, Colour::On), OutputFormat::Text, None);
        records.json(b"{\"time\":\"T\",\"labels\":{\"a\":\"\\u001b\"},\"line\":\"x\"}\n").unwrap();
        records.finish().unwrap();
        assert_eq!(records.out.written(), b"\x1b[2mT\x1b[0m \x1b[36m{a=\\x1b}\x1b[0m x\n");
    }

    #[test]
    fn the_limit_of_records_is_kept() {
        let got = printed(OutputFormat::Raw, false, Some(1), |records| {
            assert!(!records.is_full());
            records.json(TWO.as_bytes()).unwrap();
            assert!(records.is_full() && records.printed);
        });
        assert_eq!(got, b"one\x1b[1m\n");
    }

    #[test]
    fn invalid_records_are_refused() {
        for object in ["x\n", "[1]\n", "{}\n", "{\"line_base64\":\"!\"}\n"] {
            let mut records = RecordPrinter::new(Out::new(Vec::new(), false, Colour::Off), OutputFormat::Raw, None);
            assert!(records.json(object.as_bytes()).is_err(), "{object}");
        }
    }

    #[test]
    fn raw_records_are_passed_on_in_pieces() {
        let print = |records: &mut RecordPrinter<Vec<u8>>| {
            records.raw(b"a\x1b\xc3").unwrap();
            records.raw(b"\xa4\n").unwrap();
        };
        assert_eq!(printed(OutputFormat::Raw, false, None, print), b"a\x1b\xc3\xa4\n");
        assert_eq!(printed(OutputFormat::Raw, true, None, print), "a\\x1bä\n".as_bytes());
    }

    proptest! {
        #[test]
        fn records_do_not_depend_on_the_pieces(cuts in prop::collection::vec(0..TWO.len(), 0..6)) {
            let mut cuts = [cuts, vec![0, TWO.len() - 1]].concat();
            cuts.sort_unstable();
            let got = printed(OutputFormat::Json, false, None, |records| {
                for cut in cuts.windows(2) {
                    records.json(&TWO.as_bytes()[cut[0]..cut[1]]).unwrap();
                }
            });
            prop_assert_eq!(String::from_utf8(got).unwrap(), TWO);
        }
    }
}
