//! Cutting text at its delimiters.
//!
//! What lies between two delimiters is a token; the bytes between two tokens are a gap. The gaps of a line, with a zero
//! where each token was, are its *layout*. Lines with the same layout go into the same table. No token is looked at for
//! what it says: words, numbers and names are all the same.
//!
//! Three ways to cut ([`Way`]), from coarse to fine: a line, what is between two delimiters of a line, and that at the
//! borders of digits.

use crate::borders::Borders;

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

/// Gaps of so many bytes are copied without a call.
const SHORT: usize = 8;

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

/// A value that was cut.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// The first `layout_len` bytes are the layout; what follows is of earlier ones.
    layout: Vec<u8>,
    layout_len: usize,
    /// Where the tokens start. Where they end follows from the layout.
    pub(crate) starts: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
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

pub(crate) fn class(byte: u8) -> Class {
    CLASSES[byte as usize]
}

impl Cut {
    /// Cuts a value of `text`, to which `borders` belong; `false` when it has too many tokens.
    pub(crate) fn cut(&mut self, way: Way, text: &[u8], borders: &Borders, value: Span) -> bool {
        let (start, end) = (value.start as usize, (value.start + value.len) as usize);
        self.starts.clear();
        self.layout_len = 0;
        // No byte is twice in a layout, and each token has one.
        let room = 2 * (end - start) + 1 + SHORT;
        if self.layout.len() < room {
            self.layout.resize(room, 0);
        }
        match way {
            Way::Line => self.cut_line(text, borders, start, end),
            Way::Word => self.cut_fine(text, start, end, |_, next| next <= Class::Letter),
            Way::Digits => self.cut_fine(text, start, end, |first, next| first == next),
            Way::None => {
                self.token(text, start, start);
                true
            }
        }
    }

    /// The gaps of what was cut, with [`TOKEN`] between each two.
    pub(crate) fn layout(&self) -> &[u8] {
        &self.layout[..self.layout_len]
    }

    #[inline]
    fn gap(&mut self, text: &[u8], from: usize, to: usize) {
        let room = &mut self.layout[self.layout_len..];
        match text.get(from..).and_then(<[u8]>::first_chunk::<SHORT>) {
            // To copy a fixed number of bytes takes no call.
            Some(chunk) if to - from <= SHORT => room[..SHORT].copy_from_slice(chunk),
            _ => room[..to - from].copy_from_slice(&text[from..to]),
        }
        self.layout_len += to - from;
    }

    #[inline]
    fn token(&mut self, text: &[u8], gap_from: usize, start: usize) {
        self.gap(text, gap_from, start);
        self.layout[self.layout_len] = TOKEN;
        self.layout_len += 1;
        self.starts.push(start as u32);
    }

    fn cut_line(&mut self, text: &[u8], borders: &Borders, start: usize, end: usize) -> bool {
        let (mut at, mut gap_from) = (start, start);
        while self.starts.len() <= TOKENS_MAX {
            at = borders.begin(at);
            if at >= end {
                self.gap(text, gap_from, end);
                return true;
            }
            match text[at] {
                b'"' => match closing_quote(text, borders, at + 1, end) {
                    Some(close) if is_key(text, borders, at, close, end) => at = close + 2,
                    Some(close) => {
                        self.token(text, gap_from, at + 1);
                        gap_from = close;
                        at = close + 1;
                    }
                    None => at += 1,
                },
                b'\\' => at += 1,
                _ => {
                    let from = at;
                    at = borders.end(at).min(end);
                    while at + 1 < end
                        && text[at] == b','
                        && text[at - 1].is_ascii_digit()
                        && text[at + 1].is_ascii_digit()
                    {
                        at = borders.end(at + 1).min(end);
                    }
                    if at < end && text[at] == b'=' && is_name(&text[from..at]) {
                        at += 1;
                        continue;
                    }
                    let (from, to) = trim(text, from, at);
                    self.token(text, gap_from, from);
                    gap_from = to;
                }
            }
        }
        false
    }

    /// Cuts at all that is neither letter nor digit, and where `joins` says that what stands there does not belong to a
    /// token with this first byte.
    #[inline]
    fn cut_fine(&mut self, text: &[u8], start: usize, end: usize, joins: impl Fn(Class, Class) -> bool) -> bool {
        let (mut at, mut gap_from) = (start, start);
        while at < end {
            let first = class(text[at]);
            if first > Class::Letter {
                at += 1;
                continue;
            }
            self.token(text, gap_from, at);
            at += 1;
            while at < end && joins(first, class(text[at])) {
                at += 1;
            }
            gap_from = at;
            if self.starts.len() > TOKENS_MAX {
                return false;
            }
        }
        self.gap(text, gap_from, end);
        true
    }
}

/// Whether the quoted text is the name of something.
fn is_key(text: &[u8], borders: &Borders, open: usize, close: usize, end: usize) -> bool {
    close + 1 < end && text[close + 1] == b':' && !(borders.has_zeros && text[open..close].contains(&TOKEN))
}

/// Whether a text before `=` is the name of something.
fn is_name(text: &[u8]) -> bool {
    text.iter().all(|byte| *byte != TOKEN && (class(*byte) < Class::Soft || *byte == b'.' || *byte == b'-'))
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
#[inline]
fn closing_quote(text: &[u8], borders: &Borders, from: usize, end: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at = borders.quote(at);
        if at >= end {
            return None;
        }
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// Where each token ends before the next one, or the value: the bytes of the gaps of a layout, but for the first.
pub(crate) fn gaps(layout: &[u8]) -> impl Iterator<Item = usize> {
    layout.split(|byte| *byte == TOKEN).skip(1).map(<[u8]>::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(way: Way, line: &str) -> (String, Vec<&str>) {
        let (mut cut, mut borders) = (Cut::default(), Borders::default());
        borders.look(line.as_bytes());
        assert!(cut.cut(way, line.as_bytes(), &borders, Span { start: 0, len: line.len() as u32 }));
        let layout = str::from_utf8(cut.layout()).unwrap().replace('\0', "_");
        let nexts = cut.starts.iter().skip(1).copied().chain([line.len() as u32]);
        let ends = nexts.zip(gaps(cut.layout())).map(|(next, gap)| next as usize - gap);
        (layout, cut.starts.iter().zip(ends).map(|(start, end)| &line[*start as usize..end]).collect())
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
