//! Cutting text at its delimiters.
//!
//! What lies between two delimiters is a token; the bytes between two tokens are a gap. The gaps of a line, with a zero
//! where each token was, are its *layout*. Lines with the same layout go into the same table. No token is looked at for
//! what it says: words, numbers and names are all the same.
//!
//! Three ways to cut ([`Way`]), from coarse to fine: a line, what is between two delimiters of a line, and that at the
//! borders of digits.

/// A piece of the block's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Span {
    pub(crate) fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.start as usize + self.len as usize).unwrap_or_default()
    }
}

/// Stands for a token in a layout. Zero bytes of the text are always parts of tokens, so that it is never a gap's.
pub(crate) const TOKEN: u8 = 0;

/// Tokens of a line, at most; a line with more is kept whole.
pub(crate) const TOKENS_MAX: usize = 400;

/// How to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// At white space, brackets and such; quoted text is one token. Names before `=`, and quoted ones before `:`, are of
    /// the gap.
    Line,
    /// At all that is neither letter nor digit.
    Word,
    /// And between letters and digits.
    Digits,
    /// Not at all.
    None,
}

impl Way {
    /// How what was cut in this way is cut again.
    pub(crate) fn finer(self) -> Self {
        match self {
            Self::Line => Self::Word,
            Self::Word => Self::Digits,
            Self::Digits | Self::None => Self::None,
        }
    }

    /// What was cut before it was cut in this way.
    pub(crate) fn coarser(self) -> Self {
        match self {
            Self::None => Self::Digits,
            Self::Digits => Self::Word,
            Self::Word | Self::Line => Self::Line,
        }
    }
}

/// A text that was cut.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// The gaps, with [`TOKEN`] between each two.
    pub(crate) layout: Vec<u8>,
    pub(crate) tokens: Vec<Span>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Digit,
    Letter,
    /// Holds a token together from inside, and is of the gap at its ends.
    Soft,
    Hard,
    Quote,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Letter; 256];
    let mut byte = 1;
    while byte < 0x80 {
        let at = byte as u8;
        classes[byte] = match at {
            b'0'..=b'9' => Class::Digit,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Class::Letter,
            b'"' => Class::Quote,
            b'.' | b':' | b'/' | b'-' | b'@' | b'+' | b'%' | b'#' | b'$' | b'~' | b'&' | b'?' | b'^' => Class::Soft,
            _ => Class::Hard,
        };
        byte += 1;
    }
    classes
};

fn class(byte: u8) -> Class {
    CLASSES[byte as usize]
}

impl Cut {
    /// Cuts `line`, which begins at `base`.
    pub(crate) fn cut(&mut self, way: Way, line: &[u8], base: u32) {
        self.layout.clear();
        self.tokens.clear();
        match way {
            Way::Line => self.cut_line(line, base),
            Way::Word => self.cut_fine(line, base, |a, b| !(is_word(a) && is_word(b))),
            Way::Digits => {
                let kind = |a: u8, b: u8| a.is_ascii_digit() != b.is_ascii_digit();
                self.cut_fine(line, base, |a, b| !(is_word(a) && is_word(b)) || kind(a, b));
            }
            Way::None => self.push(line, base, 0, 0, line.len()),
        }
    }

    fn push(&mut self, line: &[u8], base: u32, gap_from: usize, start: usize, end: usize) {
        self.layout.extend_from_slice(&line[gap_from..start]);
        self.layout.push(TOKEN);
        self.tokens.push(Span { start: base + start as u32, len: (end - start) as u32 });
    }

    fn cut_line(&mut self, line: &[u8], base: u32) {
        let (mut at, mut gap_from) = (0, 0);
        while let Some(byte) = line.get(at) {
            match class(*byte) {
                Class::Hard => at += 1,
                Class::Quote => match closing_quote(line, at + 1) {
                    Some(end) if line.get(end + 1) == Some(&b':') && !line[at..end].contains(&TOKEN) => at = end + 2,
                    Some(end) => {
                        self.push(line, base, gap_from, at + 1, end);
                        gap_from = end;
                        at = end + 1;
                    }
                    None => at += 1,
                },
                _ => {
                    let start = at;
                    let mut named = true;
                    loop {
                        let byte = line[at];
                        named &= byte != TOKEN && (class(byte) < Class::Soft || byte == b'.' || byte == b'-');
                        at += 1;
                        match line.get(at) {
                            Some(next) if class(*next) <= Class::Soft => {}
                            Some(b',')
                                if line[at - 1].is_ascii_digit()
                                    && line.get(at + 1).is_some_and(u8::is_ascii_digit) => {}
                            _ => break,
                        }
                    }
                    if named && line.get(at) == Some(&b'=') {
                        at += 1;
                        continue;
                    }
                    let (from, to) = trim(line, start, at);
                    self.push(line, base, gap_from, from, to);
                    gap_from = to;
                }
            }
        }
        self.layout.extend_from_slice(&line[gap_from..]);
    }

    fn cut_fine(&mut self, line: &[u8], base: u32, border: impl Fn(u8, u8) -> bool) {
        let (mut at, mut gap_from) = (0, 0);
        while at < line.len() {
            if !is_word(line[at]) {
                at += 1;
                continue;
            }
            let start = at;
            at += 1;
            while at < line.len() && !border(line[at - 1], line[at]) {
                at += 1;
            }
            self.push(line, base, gap_from, start, at);
            gap_from = at;
        }
        self.layout.extend_from_slice(&line[gap_from..]);
    }
}

fn is_word(byte: u8) -> bool {
    class(byte) <= Class::Letter
}

/// Leaves soft bytes out at both ends, but for a sign; all of it when there is nothing else.
fn trim(line: &[u8], start: usize, end: usize) -> (usize, usize) {
    let (mut from, mut to) = (start, end);
    while from < to && !is_word(line[from]) {
        from += 1;
    }
    while to > from && !is_word(line[to - 1]) {
        to -= 1;
    }
    if from == to {
        return (start, end);
    }
    if from > start && line[from - 1] == b'-' && line[from].is_ascii_digit() {
        from -= 1;
    }
    (from, to)
}

/// Where the quoted text that begins at `from` ends.
fn closing_quote(line: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr::memchr2(b'"', b'\\', line.get(at..)?)?;
        if line[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(way: Way, line: &str) -> (String, Vec<&str>) {
        let mut cut = Cut::default();
        cut.cut(way, line.as_bytes(), 0);
        let layout = String::from_utf8(cut.layout).unwrap().replace('\0', "_");
        (layout, cut.tokens.iter().map(|span| str::from_utf8(span.of(line.as_bytes())).unwrap()).collect())
    }

    #[test]
    fn lines_are_cut() {
        let check = |line: &str, layout: &str, tokens: &[&str]| {
            assert_eq!(cut(Way::Line, line), (layout.to_owned(), tokens.to_vec()), "{line}");
        };
        check("", "", &[]);
        check("a", "_", &["a"]);
        check("[a] b: c.", "[_] _: _.", &["a", "b", "c"]);
        check("at 10:17:42,708 - -7", "_ _ _ _", &["at", "10:17:42,708", "-", "-7"]);
        check("{\"key\":\"a b\",\"n\":1}", "{\"key\":\"_\",\"n\":_}", &["a b", "1"]);
        check("x=1 y.z=/a?b=c \"", "x=_ y.z=/_=_ \"", &["1", "a?b", "c"]);
        check("\"a\0\":1 \0=1", "\"_\":_ _=_", &["a\0", "1", "\0", "1"]);
        check("\"\\\"\" \"\"", "\"_\" \"_\"", &["\\\"", ""]);
    }

    #[test]
    fn words_and_digits_are_cut() {
        assert_eq!(cut(Way::Word, "/ab1.c-"), ("/_._-".to_owned(), vec!["ab1", "c"]));
        assert_eq!(cut(Way::Digits, "/ab12.c"), ("/__._".to_owned(), vec!["ab", "12", "c"]));
    }
}
