//! Finds messages in a byte stream: both framings of RFC 6587, distinguished message by message.
//!
//! A message that starts with a number from 1 to 999,999,999, a space and `<` has that number of bytes behind the space
//! (octet counting). Any other message ends at the next LF. The `<` is part of the rule, because a line may well start with a
//! number. Line ends and NULs between messages are skipped.
//!
//! Memory is bounded: a message longer than the maximum is passed on in pieces of the maximum length.

use memchr::memchr;

/// The maximum number of digits of a length.
const LENGTH_DIGITS_MAX: usize = 9;

/// Capacity in bytes that an idle stream keeps. Thousands of streams may be idle.
const CARRY_CAPACITY_MAX: usize = 4 << 10;

/// A message, or a piece of one that is longer than the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyslogFrame<'a> {
    /// The bytes, without length or line end.
    pub bytes: &'a [u8],
    /// Whether this continues the message of the frame before.
    pub continues: bool,
}

/// Splits one byte stream. Holds at most `message_bytes_max` bytes.
#[derive(Debug)]
pub struct SyslogSplitter {
    /// The unfinished message, or the start of one whose framing is not known yet.
    carry: Vec<u8>,
    message_bytes_max: usize,
    state: SplitState,
    /// Whether a piece of the message was passed on.
    continues: bool,
}

/// Where in the stream the splitter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SplitState {
    /// Before a message.
    Start,
    /// Inside a message; `left` bytes are still missing.
    Counted { left: usize },
    /// In a message that ends with an LF.
    Line,
}

/// How a message is framed, as far as its first bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Counted {
        length: usize,
        header_bytes: usize,
    },
    Line,
    /// More bytes are needed.
    Undecided,
}

impl SyslogSplitter {
    /// A splitter for messages of at most `message_bytes_max` bytes, but at least 64.
    pub fn new(message_bytes_max: usize) -> Self {
        let message_bytes_max = message_bytes_max.max(64);
        Self { carry: Vec::new(), message_bytes_max, state: SplitState::Start, continues: false }
    }

    /// Bytes of the unfinished message.
    pub fn carry_bytes(&self) -> usize {
        self.carry.len()
    }

    /// Whether a piece of the unfinished message was passed on.
    pub fn continues(&self) -> bool {
        self.continues
    }

    /// Splits the next bytes of the stream, and calls `found` for each message that is complete, and for each piece of
    /// maximum length.
    pub fn push(&mut self, mut chunk: &[u8], found: &mut dyn FnMut(SyslogFrame<'_>)) {
        while !chunk.is_empty() {
            chunk = match self.state {
                SplitState::Start => self.start(chunk),
                SplitState::Counted { left } => self.counted(chunk, left, found),
                SplitState::Line => self.line(chunk, found),
            };
        }
    }

    /// Ends the stream: what remains of an unfinished message is passed on.
    pub fn finish(&mut self, found: &mut dyn FnMut(SyslogFrame<'_>)) {
        self.emit(b"", true, found);
    }

    /// Finds the framing of the next message, and returns the chunk from where it begins.
    fn start<'a>(&mut self, mut chunk: &'a [u8]) -> &'a [u8] {
        if self.carry.is_empty() {
            let is_between = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'\0');
            chunk = chunk.get(chunk.iter().take_while(|byte| is_between(byte)).count()..).unwrap_or_default();
        }
        let carried = self.carry.len();
        // At most the bytes that decide: digits, a space and `<`.
        let head: Vec<u8>;
        let first = if carried == 0 {
            chunk
        } else {
            head = self.carry.iter().chain(chunk).take(LENGTH_DIGITS_MAX + 2).copied().collect();
            &head
        };
        match framing(first) {
            Framing::Undecided => {
                self.carry.extend_from_slice(chunk);
                b""
            }
            Framing::Line => {
                self.state = SplitState::Line;
                chunk
            }
            Framing::Counted { length, header_bytes } => {
                self.state = SplitState::Counted { left: length };
                self.carry.clear();
                // The carry never includes the `<`, as that decides.
                chunk.get(header_bytes.saturating_sub(carried)..).unwrap_or_default()
            }
        }
    }

    fn counted<'a>(&mut self, chunk: &'a [u8], left: usize, found: &mut dyn FnMut(SyslogFrame<'_>)) -> &'a [u8] {
        let room = self.message_bytes_max - self.carry.len();
        let (taken, rest) = chunk.split_at(left.min(room).min(chunk.len()));
        let left = left - taken.len();
        if left == 0 {
            self.emit(taken, true, found);
        } else {
            self.state = SplitState::Counted { left };
            self.take(taken, room, found);
        }
        rest
    }

    fn line<'a>(&mut self, chunk: &'a [u8], found: &mut dyn FnMut(SyslogFrame<'_>)) -> &'a [u8] {
        let room = self.message_bytes_max - self.carry.len();
        let window = chunk.get(..room + 1).unwrap_or(chunk);
        if let Some(at) = memchr(b'\n', window) {
            let (taken, rest) = chunk.split_at(at);
            self.emit(taken, true, found);
            return rest.get(1..).unwrap_or_default();
        }
        let (taken, rest) = chunk.split_at(room.min(chunk.len()));
        if rest.is_empty() {
            // Whether the message goes on shows with the next byte.
            self.carry.extend_from_slice(taken);
        } else {
            self.take(taken, room, found);
        }
        rest
    }

    /// Keeps bytes of an unfinished message, or passes them on as a piece if there is no room for more.
    fn take(&mut self, taken: &[u8], room: usize, found: &mut dyn FnMut(SyslogFrame<'_>)) {
        if taken.len() == room {
            self.emit(taken, false, found);
        } else {
            self.carry.extend_from_slice(taken);
        }
    }

    /// Passes on the carry and `end`.
    fn emit(&mut self, end: &[u8], is_last: bool, found: &mut dyn FnMut(SyslogFrame<'_>)) {
        let is_line = !matches!(self.state, SplitState::Counted { .. });
        let bytes = if self.carry.is_empty() {
            end
        } else {
            self.carry.extend_from_slice(end);
            self.carry.as_slice()
        };
        let bytes = if is_line && is_last { bytes.strip_suffix(b"\r").unwrap_or(bytes) } else { bytes };
        if !bytes.is_empty() {
            found(SyslogFrame { bytes, continues: self.continues });
        }
        self.carry.clear();
        if self.carry.capacity() > CARRY_CAPACITY_MAX {
            self.carry = Vec::new();
        }
        self.continues = !is_last;
        if is_last {
            self.state = SplitState::Start;
        }
    }
}

fn framing(text: &[u8]) -> Framing {
    let digits = text.iter().take(LENGTH_DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
    if digits > LENGTH_DIGITS_MAX || text.first().is_some_and(|first| !matches!(first, b'1'..=b'9')) {
        return Framing::Line;
    }
    let (number, rest) = text.split_at(digits);
    match rest {
        [] | [b' '] => Framing::Undecided,
        [b' ', b'<', ..] => {
            let length = number.iter().fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
            Framing::Counted { length, header_bytes: digits + 1 }
        }
        _ => Framing::Line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The messages of a stream that arrives in chunks; `+` is in front of what continues one.
    fn split(max: usize, chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut splitter = SyslogSplitter::new(max);
        let mut found = Vec::new();
        let mut note = |frame: SyslogFrame<'_>| {
            found.push([if frame.continues { b"+" } else { &b""[..] }, frame.bytes].concat());
        };
        for chunk in chunks {
            splitter.push(chunk, &mut note);
            assert!(splitter.carry_bytes() <= splitter.message_bytes_max);
        }
        splitter.finish(&mut note);
        found
    }

    #[test]
    fn both_framings_are_split() {
        let check = |stream: &str, want: &[&str]| {
            let got = split(1_000, &[stream.as_bytes()]);
            let got: Vec<&str> = got.iter().map(|message| str::from_utf8(message).unwrap()).collect();
            assert_eq!(got, want, "{stream}");
        };
        check("<1>a\n<2>b\r\n\n<3>c", &["<1>a", "<2>b", "<3>c"]);
        check("4 <1>a5 <2>bc", &["<1>a", "<2>bc"]);
        check("6 <1>a\nb\n4 <2>c\n", &["<1>a\nb", "<2>c"]);
        check("4 <1>a<2>line\n4 <3>b", &["<1>a", "<2>line", "<3>b"]);
        check("12 monkeys\n", &["12 monkeys"]);
        check("2023-11-14 x\n", &["2023-11-14 x"]);
        check("0 <1>a\n", &["0 <1>a"]);
        check("1234567890 <1>a\n", &["1234567890 <1>a"]);
        check("99 <1>cut off", &["<1>cut off"]);
        check("12", &["12"]);
        check("", &[]);
        check("\n\0\r\n", &[]);
    }

    #[test]
    fn a_message_that_is_too_long_is_passed_on_in_pieces() {
        let long = "x".repeat(150);
        let pieces = ["x".repeat(64), format!("+{}", "x".repeat(64)), format!("+{}", "x".repeat(22))];
        let want: Vec<Vec<u8>> = pieces.into_iter().map(String::into_bytes).chain([b"<1>".to_vec()]).collect();
        let lines = format!("{long}\n<1>\n");
        assert_eq!(split(64, &[lines.as_bytes()]), want);
        let counted = format!("153 <1>{long}3 <1>");
        let got = split(64, &[counted.as_bytes()]);
        assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [64, 65, 26, 3]);
        assert_eq!(split(64, &[format!("{}\n<1>\n", "x".repeat(64)).as_bytes()]), [&[b'x'; 64][..], b"<1>"]);
        assert_eq!(split(64, &[format!("999999999 <1>{}", "x".repeat(200)).as_bytes()]).len(), 4);
    }

    proptest! {
        /// Where a stream is cut into chunks makes no difference.
        #[test]
        fn chunks_make_no_difference(
            messages in prop::collection::vec("(<1>)?[0-9 <a\n]{0,90}", 0..8),
            counted in prop::collection::vec(any::<bool>(), 8),
            cuts in prop::collection::vec(0_usize..400, 0..12),
        ) {
            let mut stream = Vec::new();
            for (message, counted) in messages.iter().zip(counted) {
                stream.extend(if counted { format!("{} {message}", message.len()) } else { format!("{message}\n") }.bytes());
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            prop_assert_eq!(split(64, &chunks), split(64, &[&stream]));
        }

        /// Each message comes out of octet counting as it went in.
        #[test]
        fn octet_counting_round_trips(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..8)) {
            let messages: Vec<Vec<u8>> = messages.into_iter().map(|message| [b"<1>".to_vec(), message].concat()).collect();
            let mut stream = Vec::new();
            for message in &messages {
                stream.extend_from_slice(format!("{} ", message.len()).as_bytes());
                stream.extend_from_slice(message);
            }
            prop_assert_eq!(split(1_000, &[&stream]), messages);
        }
    }
}
