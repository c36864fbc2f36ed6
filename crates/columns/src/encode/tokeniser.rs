//! Splits text into tokens and delimiters.
//!
//! The bytes between two tokens are a delimiter. The delimiters of a line, with a placeholder for each token, are its *layout*.
//! Lines with the same layout form a table. Tokens are not classified by meaning: words, numbers and names are treated alike.
//!
//! A [`Granularity`] is how finely a value is split: a line, words, or runs of letters and digits.

use crate::encode::boundaries::Boundaries;
use crate::encode::byte_class::{ByteClass, byte_class};
use crate::encode::text_span::TextSpan;
use crate::format::TOKEN_PLACEHOLDER;

/// The most tokens of a line; a line with more is an outlier.
pub(crate) const TOKENS_MAX: usize = 400;

/// A quote in a quoted text.
pub(crate) const ESCAPED_QUOTE: &[u8] = b"\\\"";

/// Delimiters of up to this many bytes are copied without a call.
const INLINE_COPY_BYTES: usize = 8;

/// How finely a value is tokenised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granularity {
    /// At white space, brackets and similar bytes; quoted text is one token. Names before `=`, and quoted names before `:`, belong
    /// to the delimiter.
    Line,
    /// As a line, in a quoted text: the escaped quotes are its quotes.
    Quoted,
    /// At every byte that is neither letter nor digit.
    Word,
    /// Also between letters and digits.
    Digits,
}

impl Granularity {
    /// The granularity for tokens of this granularity; `None` if they are not tokenised.
    pub(crate) fn finer(self) -> Option<Self> {
        match self {
            Self::Line => Some(Self::Quoted),
            Self::Quoted => Some(Self::Word),
            Self::Word => Some(Self::Digits),
            Self::Digits => None,
        }
    }
}

/// Tokenises values, one at a time, in reused memory.
#[derive(Debug, Default)]
pub(crate) struct Tokeniser {
    /// The layout in the first `layout_len` bytes.
    layout: Vec<u8>,
    layout_len: usize,
    /// The starts of the first `count` tokens. Their ends follow from the layout.
    starts: Vec<u32>,
    count: usize,
}

impl Tokeniser {
    /// Tokenises a value of `text`; `false` if it has too many tokens. [`Granularity::Line`] and
    /// [`Granularity::Quoted`] need the boundaries of the text.
    pub(crate) fn tokenise(
        &mut self,
        granularity: Granularity,
        text: &[u8],
        boundaries: &Boundaries,
        value: TextSpan,
    ) -> bool {
        let (start, end) = (value.start as usize, (value.start + value.len) as usize);
        self.starts.resize(TOKENS_MAX + 1, 0);
        // A layout has each delimiter byte once, and a placeholder per token.
        let room = 2 * (end - start) + 1 + INLINE_COPY_BYTES;
        if self.layout.len() < room {
            self.layout.resize(room, 0);
        }
        let writer = TokenWriter { text, layout: &mut self.layout, layout_len: 0, starts: &mut self.starts, count: 0 };
        let lens = match granularity {
            Granularity::Line => writer.tokenise_line::<false>(boundaries, start, end),
            Granularity::Quoted => writer.tokenise_line::<true>(boundaries, start, end),
            Granularity::Word => writer.tokenise_words(start, end, |_, next| next <= ByteClass::Letter),
            Granularity::Digits => writer.tokenise_words(start, end, |first, next| first == next),
        };
        (self.layout_len, self.count) = lens.unwrap_or_default();
        lens.is_some()
    }

    /// The layout of the value: its delimiters with [`TOKEN_PLACEHOLDER`] between each two.
    pub(crate) fn layout(&self) -> &[u8] {
        &self.layout[..self.layout_len]
    }

    /// The starts of its tokens.
    pub(crate) fn starts(&self) -> &[u32] {
        &self.starts[..self.count]
    }
}

/// The output for one value, apart from [`Tokeniser`], so that the lengths stay in registers.
struct TokenWriter<'c, 't> {
    text: &'t [u8],
    layout: &'c mut [u8],
    layout_len: usize,
    starts: &'c mut [u32],
    count: usize,
}

impl TokenWriter<'_, '_> {
    #[inline(always)]
    fn push_delimiter(&mut self, from: usize, to: usize) {
        let (len, at) = (to - from, self.layout_len);
        self.layout_len = at + len;
        // Copying a fixed number of bytes takes no call.
        match (self.text.get(from..from + INLINE_COPY_BYTES), self.layout.get_mut(at..at + INLINE_COPY_BYTES)) {
            (Some(short), Some(room)) if len <= INLINE_COPY_BYTES => room.copy_from_slice(short),
            _ => copy_long(&self.text[from..to], &mut self.layout[at..at + len]),
        }
    }

    #[inline(always)]
    fn push_token(&mut self, gap_from: usize, start: usize) {
        self.push_delimiter(gap_from, start);
        self.layout[self.layout_len] = TOKEN_PLACEHOLDER;
        self.layout_len += 1;
        self.starts[self.count] = start as u32;
        self.count += 1;
    }

    /// Appends the last delimiter; returns the length of the layout and the number of tokens.
    #[inline(always)]
    fn finish(mut self, gap_from: usize, end: usize) -> Option<(usize, usize)> {
        self.push_delimiter(gap_from, end);
        Some((self.layout_len, self.count))
    }

    /// `ESCAPED`: the quotes have a backslash before them.
    fn tokenise_line<const ESCAPED: bool>(
        mut self,
        boundaries: &Boundaries,
        start: usize,
        end: usize,
    ) -> Option<(usize, usize)> {
        let text = self.text;
        let quote_len = if ESCAPED { ESCAPED_QUOTE.len() } else { 1 };
        let is_quote = |at: usize| match ESCAPED {
            true => text[at] == b'\\' && at + 1 < end && text[at + 1] == b'"',
            false => text[at] == b'"',
        };
        let mut gap_from = start;
        let mut edges = boundaries.edges(start, end);
        let mut at = edges.next();
        while at < end {
            match text[at] {
                b'"' | b'\\' if is_quote(at) => match closing_quote::<ESCAPED>(text, boundaries, at + quote_len, end) {
                    Some(close) if is_key(text, boundaries, at, (close, quote_len), end) => {
                        let behind = close + quote_len + 1;
                        edges = boundaries.edges(behind, end);
                        // The colon belongs to a token that may continue behind it.
                        at = match text.get(behind).map(|byte| byte_class(*byte)) {
                            Some(class) if class <= ByteClass::Connector => behind,
                            Some(ByteClass::Delimiter) if text[behind] != b'\\' => edges.next().max(edges.next()),
                            _ => edges.next(),
                        };
                    }
                    Some(close) => {
                        self.push_token(gap_from, at + quote_len);
                        gap_from = close;
                        at = edges.next_from(close + quote_len);
                    }
                    None => at = edges.next(),
                },
                b'"' | b'\\' => at = edges.next(),
                _ => {
                    let from = at;
                    at = edges.next().min(end);
                    let mut stop = text.get(at).copied().unwrap_or_default();
                    while stop == b',' && at + 1 < end && text[at - 1].is_ascii_digit() && text[at + 1].is_ascii_digit()
                    {
                        edges.next();
                        at = edges.next().min(end);
                        stop = text.get(at).copied().unwrap_or_default();
                    }
                    if !(stop == b'=' && at < end && is_name(&text[from..at])) {
                        let (from, to) = trim(text, from, at);
                        self.push_token(gap_from, from);
                        gap_from = to;
                    }
                    // Quotes have edges of their own.
                    if stop != b'"' && stop != b'\\' {
                        at = edges.next();
                    }
                }
            }
            if self.count > TOKENS_MAX {
                return None;
            }
        }
        self.finish(gap_from, end)
    }

    /// Splits at bytes that are neither letters nor digits, and where `joins` returns false for a byte and the first
    /// byte of its token.
    #[inline]
    fn tokenise_words(
        mut self,
        start: usize,
        end: usize,
        joins: impl Fn(ByteClass, ByteClass) -> bool,
    ) -> Option<(usize, usize)> {
        let text = self.text;
        let (mut at, mut gap_from) = (start, start);
        while at < end {
            let first = byte_class(text[at]);
            if first > ByteClass::Letter {
                at += 1;
                continue;
            }
            self.push_token(gap_from, at);
            at += 1;
            while at < end && joins(first, byte_class(text[at])) {
                at += 1;
            }
            gap_from = at;
            if self.count > TOKENS_MAX {
                return None;
            }
        }
        self.finish(gap_from, end)
    }
}

#[cold]
fn copy_long(gap: &[u8], room: &mut [u8]) {
    room.copy_from_slice(gap);
}

/// Whether a quoted text is a key. `quote_len`: the bytes of its closing quote.
fn is_key(text: &[u8], boundaries: &Boundaries, open: usize, (close, quote_len): (usize, usize), end: usize) -> bool {
    close + quote_len < end
        && text[close + quote_len] == b':'
        && !(boundaries.has_zeros && text[open..close].contains(&TOKEN_PLACEHOLDER))
}

/// Whether a text before `=` is a key.
fn is_name(text: &[u8]) -> bool {
    text.iter().all(|byte| {
        *byte != TOKEN_PLACEHOLDER && (byte_class(*byte) < ByteClass::Connector || *byte == b'.' || *byte == b'-')
    })
}

fn is_word(byte: u8) -> bool {
    byte_class(byte) <= ByteClass::Letter
}

/// Removes connectors at both ends, except a sign; a token of connectors alone stays whole.
#[inline(always)]
fn trim(text: &[u8], start: usize, end: usize) -> (usize, usize) {
    if is_word(text[start]) && is_word(text[end - 1]) {
        (start, end)
    } else {
        trim_connectors(&text[start..end], start)
    }
}

fn trim_connectors(token: &[u8], start: usize) -> (usize, usize) {
    let Some(mut from) = token.iter().position(|byte| is_word(*byte)) else { return (start, start + token.len()) };
    let to = token.iter().rposition(|byte| is_word(*byte)).map_or(0, |last| last + 1);
    if from > 0 && token[from - 1] == b'-' && token[from].is_ascii_digit() {
        from -= 1;
    }
    (start + from, start + to)
}

/// The offset of the quote that closes the text from `from` on.
#[inline]
fn closing_quote<const ESCAPED: bool>(text: &[u8], boundaries: &Boundaries, from: usize, end: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at = boundaries.next_quote(at, end);
        if at >= end {
            return None;
        }
        if ESCAPED {
            match text[at..end] {
                [b'\\', b'"', ..] => return Some(at),
                // An escaped backslash escapes what is behind it.
                [b'\\', b'\\', b'\\', ..] => at += 4,
                [b'\\', b'\\', ..] => at += 2,
                _ => at += 1,
            }
        } else {
            if text[at] == b'"' {
                return Some(at);
            }
            at += 2;
        }
    }
}

/// The length of the delimiter behind each token of a layout.
pub(crate) fn delimiter_lengths(layout: &[u8]) -> impl Iterator<Item = usize> {
    layout.split(|byte| *byte == TOKEN_PLACEHOLDER).skip(1).map(<[u8]>::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(granularity: Granularity, line: &str) -> (String, Vec<&str>) {
        let (mut cut, mut boundaries) = (Tokeniser::default(), Boundaries::default());
        boundaries.compute(line.as_bytes());
        assert!(cut.tokenise(granularity, line.as_bytes(), &boundaries, TextSpan { start: 0, len: line.len() as u32 }));
        let layout = str::from_utf8(cut.layout()).unwrap().replace('\0', "_");
        let nexts = cut.starts().iter().skip(1).copied().chain([line.len() as u32]);
        let ends = nexts.zip(delimiter_lengths(cut.layout())).map(|(next, gap)| next as usize - gap);
        (layout, cut.starts().iter().zip(ends).map(|(start, end)| &line[*start as usize..end]).collect())
    }

    #[test]
    fn lines_are_cut() {
        let check = |line: &str, layout: &str, tokens: &[&str]| {
            assert_eq!(cut(Granularity::Line, line), (layout.to_owned(), tokens.to_vec()), "{line}");
        };
        check("", "", &[]);
        check("a", "_", &["a"]);
        check("[a] b: c.", "[_] _: _.", &["a", "b", "c"]);
        check("at 10:17:42,708 - -7", "_ _ _ _", &["at", "10:17:42,708", "-", "-7"]);
        check("{\"key\":\"a b\",\"n\":1}", "{\"key\":\"_\",\"n\":_}", &["a b", "1"]);
        check("x=1 y.z=/a?b=c \"", "x=_ y.z=/_=_ \"", &["1", "a?b", "c"]);
        check("\"a\0\":1 \0=1", "\"_\":_ _=_", &["a\0", "1", "\0", "1"]);
        check("\"a\": \"b\" \"c\":\"d\" \"e\":[1,\"f\":", "\"a\": \"_\" \"c\":\"_\" \"e\":[_,\"f\":", &["b", "d", "1"]);
        check("\"\\\"\" \"\"", "\"_\" \"_\"", &["\\\"", ""]);
    }

    #[test]
    fn lines_in_quoted_texts_are_cut_at_escaped_quotes() {
        let check = |line: &str, layout: &str, tokens: &[&str]| {
            assert_eq!(cut(Granularity::Quoted, line), (layout.to_owned(), tokens.to_vec()), "{line}");
        };
        check(r#"- [a:1] \"GET / b\" 7"#, r#"_ [_] \"_\" _"#, &["-", "a:1", "GET / b", "7"]);
        check(r#"\"key\":\"a b\" x=\"c"#, r#"\"key\":\"_\" x=\"_"#, &["a b", "c"]);
        check(r#"\"a \\\" b\" \\ c"#, r#"\"_\" \\ _"#, &[r#"a \\\" b"#, "c"]);
        check(r#"a\nb \" "c" \""#, r#"_\_ \"_\""#, &["a", "nb", " \"c\" "]);
        check(r#""c" \"#, r#""_" \"#, &["c"]);
    }

    #[test]
    fn words_and_digits_are_tokenised() {
        assert_eq!(cut(Granularity::Word, "/ab1.c-"), ("/_._-".to_owned(), vec!["ab1", "c"]));
        assert_eq!(cut(Granularity::Digits, "/ab12.c"), ("/__._".to_owned(), vec!["ab", "12", "c"]));
    }
}
