//! What the first bytes of a connection say about the rest.

use bucksaw_record::{InvalidLabels, Labels};
use bucksaw_wire::MAGIC;

use crate::http;

/// How a first line starts that sets the labels of the stream.
const LABELS: &[u8] = b"#labels ";

/// The longest such line, its LF included.
pub(crate) const LABELS_LINE_MAX: usize = 64 << 10;

/// What a connection is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// More bytes decide.
    Undecided,
    /// The framed protocol.
    Framed,
    /// HTTP, which is spoken at another port.
    Http,
    /// Lines.
    Lines,
    /// Lines after a first one of so many bytes that sets the labels.
    Labelled(Labels, usize),
    /// Lines, and the first would have set the labels if it were right.
    Mislabelled(Mislabelled),
}

/// Why a first line does not set the labels.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mislabelled {
    #[error(transparent)]
    Invalid(InvalidLabels),
    #[error("the line is not UTF-8")]
    Text,
    #[error("the line is longer than {LABELS_LINE_MAX} bytes")]
    Long,
}

impl Opening {
    /// Decides by all bytes that came so far.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(&MAGIC) {
            return Self::Framed;
        }
        if MAGIC.starts_with(bytes) || LABELS.starts_with(bytes) {
            return Self::Undecided;
        }
        let Some(labels) = bytes.strip_prefix(LABELS) else { return http::first_line(bytes) };
        let within = bytes.get(..LABELS_LINE_MAX).unwrap_or(bytes);
        let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
            return if within.len() < LABELS_LINE_MAX { Self::Undecided } else { Self::Mislabelled(Mislabelled::Long) };
        };
        let labels = labels.get(..end - LABELS.len()).unwrap_or_default();
        match str::from_utf8(labels).map(Labels::parse) {
            Ok(Ok(labels)) => Self::Labelled(labels, end + 1),
            Ok(Err(error)) => Self::Mislabelled(Mislabelled::Invalid(error)),
            Err(_) => Self::Mislabelled(Mislabelled::Text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_decide() {
        let check = |bytes: &[u8], want: Opening| assert_eq!(Opening::of(bytes), want, "{}", bytes.escape_ascii());
        let labels = |text: &str| Labels::parse(text).unwrap();
        check(b"", Opening::Undecided);
        check(b"\x89BSW\r\n\x1a", Opening::Undecided);
        check(b"\x89BSW\r\n\x1a\n", Opening::Framed);
        check(b"\x89BSW\r\n\x1a\nrest", Opening::Framed);
        check(b"\x89BSX", Opening::Lines);
        check(b"x", Opening::Lines);
        check(b"GET / HTTP/1.1\r\n", Opening::Http);
        check(b"\n", Opening::Lines);
        check(b"#lab", Opening::Undecided);
        check(b"#labels\n", Opening::Lines);
        check(b"#label a=b\n", Opening::Lines);
        check(b"#labels a=b", Opening::Undecided);
        check(b"#labels a=b\nx", Opening::Labelled(labels("a=b"), 12));
        check(b"#labels a=b, c=\"d,e\"\r\n", Opening::Labelled(labels("a=b,c=\"d,e\""), 22));
        check(b"#labels \n", Opening::Labelled(Labels::default(), 9));
        check(b"#labels a=\xff\n", Opening::Mislabelled(Mislabelled::Text));
        let no_value = InvalidLabels::NoValue("a".to_owned());
        check(b"#labels a\n", Opening::Mislabelled(Mislabelled::Invalid(no_value)));
        let long = [LABELS, &[b'x'; LABELS_LINE_MAX]].concat();
        check(&long[..LABELS_LINE_MAX - 1], Opening::Undecided);
        check(&long, Opening::Mislabelled(Mislabelled::Long));
    }
}
