//! Detects the protocol of a connection by its first bytes.

use bucksaw_auth::SecretText;
use bucksaw_record::{InvalidLabels, Labels};
use bucksaw_wire::MAGIC;

use crate::http_refusal::{RequestLine, detect_request_line};

/// The start of a first line that sets the labels of the stream.
const LABELS: &[u8] = b"#labels ";

/// The start of a client's first record of TLS: a handshake, major version 3. The minor version is 4 at most.
const TLS: [u8; 2] = [22, 3];

/// The start of a first line that presents the token of the client.
const TOKEN: &[u8] = b"#token ";

/// The longest line of either kind, in bytes with its LF.
pub(crate) const LABELS_LINE_MAX: usize = 64 << 10;

/// The protocol of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// More bytes are needed.
    Undecided,
    Framed,
    /// A first line with the token of the client, with its length in bytes. The rest decides.
    Token(usize),
    /// HTTP, which another port serves.
    Http,
    /// TLS, which this port does not speak.
    Tls,
    Lines,
    /// Lines after a first one that sets the labels, with its length in bytes.
    LinesWithLabels(Labels, usize),
    /// Lines, of which the first has invalid labels.
    LinesWithInvalidLabels(InvalidLabelsLine),
}

/// Why a first line does not set the labels.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidLabelsLine {
    #[error(transparent)]
    Invalid(InvalidLabels),
    #[error("the line is not UTF-8")]
    NotUtf8,
    #[error("the line is longer than {LABELS_LINE_MAX} bytes")]
    TooLong,
}

impl Protocol {
    /// Decides by all bytes received so far.
    pub(crate) fn detect(bytes: &[u8]) -> Self {
        if bytes.starts_with(&MAGIC) {
            return Self::Framed;
        }
        if MAGIC.starts_with(bytes) || LABELS.starts_with(bytes) || TOKEN.starts_with(bytes) {
            return Self::Undecided;
        }
        if bytes.starts_with(TOKEN) {
            let line = bytes.get(..LABELS_LINE_MAX).unwrap_or(bytes);
            return match line.iter().position(|byte| *byte == b'\n') {
                Some(end) => Self::Token(end + 1),
                None if line.len() < LABELS_LINE_MAX => Self::Undecided,
                None => Self::Token(line.len()),
            };
        }
        let Some(labels) = bytes.strip_prefix(LABELS) else {
            return Self::detect_http(bytes);
        };
        let line = bytes.get(..LABELS_LINE_MAX).unwrap_or(bytes);
        let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
            return if line.len() < LABELS_LINE_MAX {
                Self::Undecided
            } else {
                Self::LinesWithInvalidLabels(InvalidLabelsLine::TooLong)
            };
        };
        let labels = labels.get(..end - LABELS.len()).unwrap_or_default();
        match str::from_utf8(labels).map(Labels::parse) {
            Ok(Ok(labels)) => Self::LinesWithLabels(labels, end + 1),
            Ok(Err(error)) => Self::LinesWithInvalidLabels(InvalidLabelsLine::Invalid(error)),
            Err(_) => Self::LinesWithInvalidLabels(InvalidLabelsLine::NotUtf8),
        }
    }

    /// The token of a first line.
    pub(crate) fn token(line: &[u8]) -> Option<SecretText> {
        let token = str::from_utf8(line.strip_prefix(TOKEN)?).ok()?.trim_ascii();
        (!token.is_empty()).then(|| SecretText::new(token))
    }

    /// Decides on a listener whose connections have one protocol, here as lines, or are HTTP or TLS by mistake.
    pub(crate) fn detect_http(bytes: &[u8]) -> Self {
        match (bytes, TLS.starts_with(bytes)) {
            ([_, _, 0..=4, ..], _) if bytes.starts_with(&TLS) => return Self::Tls,
            ([_, ..], true) => return Self::Undecided,
            _ => {}
        }
        match detect_request_line(bytes) {
            RequestLine::Http => Self::Http,
            RequestLine::Other => Self::Lines,
            RequestLine::Undecided => Self::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_decide() {
        let check =
            |bytes: &[u8], want: Protocol| assert_eq!(Protocol::detect(bytes), want, "{}", bytes.escape_ascii());
        let labels = |text: &str| Labels::parse(text).unwrap();
        check(b"", Protocol::Undecided);
        check(b"\x89BSW\r\n\x1a", Protocol::Undecided);
        check(b"\x89BSW\r\n\x1a\n", Protocol::Framed);
        check(b"\x89BSW\r\n\x1a\nrest", Protocol::Framed);
        check(b"\x89BSX", Protocol::Lines);
        check(b"x", Protocol::Lines);
        check(b"GET / HTTP/1.1\r\n", Protocol::Http);
        check(b"\x16", Protocol::Undecided);
        check(b"\x16\x03", Protocol::Undecided);
        check(b"\x16\x03\x01\x02", Protocol::Tls);
        check(b"\x16\x03\x20", Protocol::Lines);
        check(b"\x16x", Protocol::Lines);
        check(b"\n", Protocol::Lines);
        check(b"#tok", Protocol::Undecided);
        check(b"#token bks", Protocol::Undecided);
        check(b"#token bks_x\n#labels a=b\n", Protocol::Token(13));
        check(b"#tokens\n", Protocol::Lines);
        check(&[TOKEN, &[b'x'; LABELS_LINE_MAX]].concat(), Protocol::Token(LABELS_LINE_MAX));
        check(b"#lab", Protocol::Undecided);
        check(b"#labels\n", Protocol::Lines);
        check(b"#label a=b\n", Protocol::Lines);
        check(b"#labels a=b", Protocol::Undecided);
        check(b"#labels a=b\nx", Protocol::LinesWithLabels(labels("a=b"), 12));
        check(b"#labels a=b, c=\"d,e\"\r\n", Protocol::LinesWithLabels(labels("a=b,c=\"d,e\""), 22));
        check(b"#labels \n", Protocol::LinesWithLabels(Labels::default(), 9));
        check(b"#labels a=\xff\n", Protocol::LinesWithInvalidLabels(InvalidLabelsLine::NotUtf8));
        let no_value = InvalidLabels::MissingEquals("a".to_owned());
        check(b"#labels a\n", Protocol::LinesWithInvalidLabels(InvalidLabelsLine::Invalid(no_value)));
        let long = [LABELS, &[b'x'; LABELS_LINE_MAX]].concat();
        check(&long[..LABELS_LINE_MAX - 1], Protocol::Undecided);
        check(&long, Protocol::LinesWithInvalidLabels(InvalidLabelsLine::TooLong));
    }

    #[test]
    fn the_token_of_a_line_has_no_space_around_it() {
        let check = |line: &[u8], want: Option<&str>| {
            assert_eq!(Protocol::token(line).as_ref().map(SecretText::expose), want, "{}", line.escape_ascii());
        };
        check(b"#token bks_x\n", Some("bks_x"));
        check(b"#token  bks_x \r\n", Some("bks_x"));
        check(b"#token \n", None);
        check(b"#token \xff\n", None);
    }
}
