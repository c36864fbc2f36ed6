//! Records as `query`, `tail` and `context` print them.

use std::io::Write;

use super::out::Out;
use super::sanitise::SanitisingStream;
use super::template;
use crate::answer::NodeRecord;
use crate::args::OutputFormat;
use crate::expression::Highlighter;
use crate::values::DisplayZone;

/// How records are printed.
#[derive(Clone, Debug)]
pub(crate) struct RecordStyle {
    pub(crate) format: OutputFormat,
    /// The zone of times in text and templates.
    pub(crate) zone: DisplayZone,
    /// What to colour in lines, if the output is coloured.
    pub(crate) highlighter: Option<Highlighter>,
    pub(crate) prefix: RecordPrefix,
}

/// What is printed before a record, except in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordPrefix {
    None,
    /// The number of the match, as in `7:`; in its context as in `7-`.
    Number,
    /// `>` before a match, and space before others.
    Mark,
}

/// Prints records, sanitised on a terminal and unchanged in a pipe.
#[derive(Debug)]
pub(crate) struct RecordPrinter<W: Write = std::fs::File> {
    out: Out<W>,
    style: RecordStyle,
    pieces: SanitisingStream,
    /// The number of printed matches.
    matches: u64,
    /// Whether anything was printed.
    pub(crate) printed: bool,
}

impl<W: Write> RecordPrinter<W> {
    pub(crate) fn new(out: Out<W>, style: RecordStyle) -> Self {
        let highlighter = style.highlighter.filter(|_| out.colour == super::Colour::On);
        let style = RecordStyle { highlighter, ..style };
        Self { out, style, pieces: SanitisingStream::default(), matches: 0, printed: false }
    }

    /// Whether records may be printed as they are received, without their bounds. On a terminal a line of progress may
    /// follow, and would replace half a record.
    pub(crate) fn takes_raw(&self) -> bool {
        !self.out.terminal
            && self.style.format == OutputFormat::Raw
            && self.style.prefix == RecordPrefix::None
            && self.style.highlighter.is_none()
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

    /// Prints a match, which is the JSON of a node without a line end.
    pub(crate) fn matched(&mut self, object: &[u8]) -> anyhow::Result<()> {
        self.matches += 1;
        self.object(object, true)
    }

    /// Prints a record of the context of the last match, or of the next one if it comes before it.
    pub(crate) fn context(&mut self, object: &[u8], is_before: bool) -> anyhow::Result<()> {
        let matches = self.matches;
        self.matches += u64::from(is_before);
        let printed = self.object(object, false);
        self.matches = matches;
        printed
    }

    /// Separates groups of records, except in JSON.
    pub(crate) fn separator(&mut self) -> anyhow::Result<()> {
        if self.style.format == OutputFormat::Json {
            return Ok(());
        }
        let separator = self.out.colour.cyan(b"--");
        self.out.write(&separator)?;
        self.out.write(b"\n")
    }

    /// Flushes the output.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        self.out.flush()
    }

    /// Prints the rest of a partial character, and flushes.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        let mut shown = Vec::new();
        self.pieces.finish(&mut shown);
        self.out.write(&shown)?;
        self.out.flush()
    }

    /// What was written, for tests.
    #[cfg(test)]
    pub(crate) fn written(&self) -> &W {
        self.out.written()
    }

    fn object(&mut self, object: &[u8], is_match: bool) -> anyhow::Result<()> {
        self.printed = true;
        if self.style.format == OutputFormat::Json {
            self.out.write_json(object)?;
            return self.out.write(b"\n");
        }
        let record = NodeRecord::parse(object)?;
        let line = record.line()?;
        let prefix = match (self.style.prefix, is_match) {
            (RecordPrefix::None, _) => String::new(),
            (RecordPrefix::Number, true) => format!("{}:", self.matches),
            (RecordPrefix::Number, false) => format!("{}-", self.matches),
            (RecordPrefix::Mark, true) => "> ".to_owned(),
            (RecordPrefix::Mark, false) => "  ".to_owned(),
        };
        if !prefix.is_empty() {
            let prefix = self.out.colour.green(prefix.as_bytes());
            self.out.write(&prefix)?;
        }
        match &self.style.format {
            OutputFormat::Template(template) => {
                let template = template.clone();
                for part in template::fill(&template, &record, &line, &self.style.zone) {
                    match part {
                        template::FilledPart::Line => self.line(&line, is_match)?,
                        template::FilledPart::Own(text) => self.out.write(text.as_bytes())?,
                        template::FilledPart::Value(value) => self.out.write_sanitised(&value)?,
                    }
                }
            }
            OutputFormat::Text => {
                let labels = format!("{{{}}}", record.stream());
                let time = self.style.zone.format_text(&record.time);
                let time = self.out.colour.dim(&self.out.sanitised(time.as_bytes()));
                let labels = self.out.colour.cyan(&self.out.sanitised(labels.as_bytes()));
                self.out.write(&[&time[..], b" ", &labels, b" "].concat())?;
                self.line(&line, is_match)?;
            }
            OutputFormat::Raw | OutputFormat::Json => self.line(&line, is_match)?,
        }
        self.out.write(b"\n")
    }

    /// Prints a line with the matches in colour.
    fn line(&mut self, line: &[u8], is_match: bool) -> anyhow::Result<()> {
        let highlighter = self.style.highlighter.as_ref().filter(|_| is_match);
        let spans = highlighter.map(|highlighter| highlighter.spans(line)).unwrap_or_default();
        let part = |from: usize, to: usize| line.get(from..to).unwrap_or_default();
        let mut at = 0;
        for span in spans {
            self.out.write_sanitised(part(at, span.start))?;
            let found = self.out.colour.bold_red(&self.out.sanitised(part(span.start, span.end)));
            self.out.write(&found)?;
            at = span.end;
        }
        self.out.write_sanitised(part(at, line.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::PatternArgs;
    use crate::expression::RecordRules;
    use crate::print::Colour;

    const ONE: &[u8] =
        br#"{"id":"x","time":"2026-11-20T23:10:00.000001Z","labels":{"b":"2","a":"x y"},"line":"one\u001b[1m"}"#;
    const TWO: &[u8] = br#"{"time":"2026-11-20T23:10:01.000000Z","line_base64":"/3R3bw==","cut":true}"#;

    fn style(format: &str) -> RecordStyle {
        RecordStyle {
            format: format.parse().unwrap(),
            zone: DisplayZone::utc(),
            highlighter: None,
            prefix: RecordPrefix::None,
        }
    }

    fn printed(
        style: RecordStyle,
        terminal: bool,
        colour: Colour,
        print: impl Fn(&mut RecordPrinter<Vec<u8>>),
    ) -> String {
        let mut records = RecordPrinter::new(Out::new(Vec::new(), terminal, colour), style);
        print(&mut records);
        records.finish().unwrap();
        records.out.written().escape_ascii().to_string()
    }

    #[test]
    fn each_format_is_printed() {
        let check = |format: &str, terminal: bool, want: &[u8]| {
            let got = printed(style(format), terminal, Colour::Off, |records| {
                records.matched(ONE).unwrap();
                records.matched(TWO).unwrap();
            });
            assert_eq!(got, want.escape_ascii().to_string(), "{format:?} {terminal}");
        };
        let json = [ONE, TWO, b""].join(&b'\n');
        check("json", false, &json);
        check("json", true, &json);
        check("raw", false, b"one\x1b[1m\n\xfftwo\n");
        check("raw", true, b"one\\x1b[1m\n\\xfftwo\n");
        let times = ["2026-11-20T23:10:00.000001Z {a=\"x y\",b=2} one", "\n2026-11-20T23:10:01.000000Z {} "];
        check("text", false, &[times[0].as_bytes(), b"\x1b[1m", times[1].as_bytes(), b"\xfftwo\n"].concat());
        check("text", true, &[times[0].as_bytes(), b"\\x1b[1m", times[1].as_bytes(), b"\\xfftwo\n"].concat());
        check("{label:b}|{line}|{id}", true, b"2|one\\x1b[1m|x\n-|\\xfftwo|-\n");
    }

    #[test]
    fn times_are_in_the_zone() {
        let style = RecordStyle { zone: "+02:00".parse().unwrap(), ..style("text") };
        let got = printed(style, false, Colour::Off, |records| records.matched(TWO).unwrap());
        assert_eq!(got, "2026-11-21T01:10:01.000000+02:00 {} \\xfftwo\\n");
    }

    #[test]
    fn times_labels_and_matches_are_coloured() {
        let pattern = PatternArgs { expr: Some("b OR c".into()), ..PatternArgs::default() };
        let highlighter = RecordRules::build(&pattern).unwrap().highlighter();
        let style = RecordStyle { highlighter, ..style("text") };
        let print = |records: &mut RecordPrinter<Vec<u8>>| {
            let object = b"{\"time\":\"T\",\"labels\":{\"a\":\"\\u001b\"},\"line\":\"abc\\u001b b\"}";
            records.matched(object).unwrap();
            records.context(object, false).unwrap();
            assert!(!records.takes_raw());
        };
        let want = "\\x1b[2mT\\x1b[0m \\x1b[36m{a=\\\\x1b}\\x1b[0m a\\x1b[1;31mbc\\x1b[0m\\\\x1b \\x1b[1;31mb\\x1b[0m\\n\
                    \\x1b[2mT\\x1b[0m \\x1b[36m{a=\\\\x1b}\\x1b[0m abc\\\\x1b b\\n";
        assert_eq!(printed(style, true, Colour::On, print), want);
    }

    #[test]
    fn matches_are_numbered() {
        let style = RecordStyle { prefix: RecordPrefix::Number, ..style("raw") };
        let got = printed(style, false, Colour::Off, |records| {
            let line = |line: &str| format!("{{\"line\":\"{line}\"}}").into_bytes();
            records.context(&line("before"), true).unwrap();
            records.matched(&line("one")).unwrap();
            records.context(&line("after"), false).unwrap();
            records.separator().unwrap();
            records.matched(&line("two")).unwrap();
        });
        assert_eq!(got, "1-before\\n1:one\\n1-after\\n--\\n2:two\\n");
    }

    #[test]
    fn a_match_is_marked() {
        let style = RecordStyle { prefix: RecordPrefix::Mark, ..style("{line}") };
        let got = printed(style, false, Colour::Off, |records| {
            records.context(b"{\"line\":\"a\"}", false).unwrap();
            records.matched(b"{\"line\":\"b\"}").unwrap();
        });
        assert_eq!(got, "  a\\n> b\\n");
    }

    #[test]
    fn invalid_records_are_refused() {
        for object in ["x", "[1]", "{}", "{\"line_base64\":\"!\"}"] {
            let mut records = RecordPrinter::new(Out::new(Vec::new(), false, Colour::Off), style("raw"));
            assert!(records.matched(object.as_bytes()).is_err(), "{object}");
        }
    }

    #[test]
    fn raw_records_are_passed_on_in_pieces() {
        let print = |records: &mut RecordPrinter<Vec<u8>>| {
            records.raw(b"a\x1b\xc3").unwrap();
            records.raw(b"\xa4\n").unwrap();
        };
        assert_eq!(printed(style("raw"), false, Colour::Off, print), "a\\x1b\\xc3\\xa4\\n");
        assert_eq!(printed(style("raw"), true, Colour::Off, print), "a\\\\x1b\\xc3\\xa4\\n");
    }
}
