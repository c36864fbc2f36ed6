//! Where a field is in lines of one layout.
//!
//! A layout with sample values in place of the real ones is read as a line is, by the same reader. Which bytes of a line are
//! structure, and so where a field begins and ends, does not depend on the values, as long as each fits its
//! [role](FieldRole): the part of a string must not end the string, and so on. A value in the name of a key decides whether the
//! key is the field's; such layouts are not read.

use std::borrow::Cow;
use std::ops::Range;

use bucksaw_search::{LayoutOffset, LayoutPart, Needle, TestedText};

use super::quoted::unescape;
use super::{json, logfmt};

/// What a value of a layout is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldRole {
    /// A string of JSON.
    JsonString,
    /// A number or another bare word of JSON.
    JsonWord,
    /// A token of logfmt before any `=`, at the start of the line.
    FirstToken,
    /// A token of logfmt before any `=`.
    Token,
    /// The rest of a token of logfmt.
    TokenRest,
    /// A quoted value of logfmt.
    QuotedToken,
}

impl FieldRole {
    /// See [`LayoutReader::fits`](bucksaw_search::LayoutReader::fits).
    pub(crate) fn fits(self, text: &[u8]) -> bool {
        match self {
            Self::JsonString | Self::QuotedToken => is_inside_quotes(text),
            Self::FirstToken => !text.is_empty() && !text.starts_with(b"{") && text.iter().all(|byte| is_token(*byte)),
            Self::Token => text.iter().all(|byte| is_token(*byte)),
            Self::TokenRest => {
                !text.is_empty() && !text.starts_with(b"\"") && !text.iter().any(u8::is_ascii_whitespace)
            }
            Self::JsonWord => !text.is_empty() && text.iter().all(|byte| json::is_word(*byte)),
        }
    }

    /// See [`LayoutReader::all_parts_fit`](bucksaw_search::LayoutReader::all_parts_fit).
    pub(crate) fn all_parts_fit(self, text: &[u8]) -> bool {
        match self {
            Self::JsonString | Self::QuotedToken => memchr::memchr2(b'"', b'\\', text).is_none(),
            Self::JsonWord => text.iter().all(|byte| json::is_word(*byte)),
            Self::FirstToken | Self::Token | Self::TokenRest => {
                text.iter().all(|byte| is_token(*byte) && *byte != b'{')
            }
        }
    }

    /// The value of a field whose text has this role.
    pub(crate) fn value(self, text: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::JsonString => unescape(text),
            Self::QuotedToken => logfmt::unquote(text),
            _ => Cow::Borrowed(text),
        }
    }

    /// The sample that stands for values of the role; any that fits would do.
    fn sample(self) -> u8 {
        if self == Self::JsonWord { b'0' } else { b'x' }
    }
}

/// Whether a text in a string neither ends it nor changes the meaning of the byte behind the text.
fn is_inside_quotes(text: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if text.get(at) == Some(&b'"') || at + 1 == text.len() {
            return false;
        }
        at += 2;
    }
    true
}

/// Whether a byte neither ends a token of logfmt nor divides it.
fn is_token(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && byte != b'=' && byte != b'"'
}

/// Whether lines of a layout are JSON; `None` for blank lines.
fn is_json(layout: &[LayoutPart<'_>]) -> Option<bool> {
    let first = layout.iter().find_map(|part| match part {
        LayoutPart::Literal(text) => text.iter().find(|byte| !byte.is_ascii_whitespace()).copied(),
        LayoutPart::Value => Some(b'x'),
    });
    first.map(|byte| byte == b'{')
}

/// The roles of the values of a layout; `None` if it does not decide how its lines are read.
pub(crate) fn roles(layout: &[LayoutPart<'_>]) -> Option<Vec<FieldRole>> {
    sample_line(layout).map(|(roles, _)| roles)
}

fn sample_line(layout: &[LayoutPart<'_>]) -> Option<(Vec<FieldRole>, SampleLine)> {
    let mut sample = SampleLine { bytes: Vec::new(), spans: Vec::with_capacity(layout.len()) };
    let is_json_line = is_json(layout)?;
    let roles = if is_json_line { json_roles(layout, &mut sample)? } else { logfmt_roles(layout, &mut sample)? };
    debug_assert_eq!(json::is_json(&sample.bytes), is_json_line);
    Some((roles, sample))
}

/// Where lines of this layout have the field `name`. `needles` are texts that every line with the field contains, escapes aside. It is
/// unknown if it depends on more than the layout, if the field is an object or array, or if a line of logfmt has no such field:
/// searching all lines for the name is cheaper than looking at the values of each token.
pub(crate) fn find(layout: &[LayoutPart<'_>], name: &str, needles: &[Needle]) -> TestedText<FieldRole> {
    let Some(is_json_line) = is_json(layout) else { return TestedText::Unknown };
    let absent = || if is_json_line { TestedText::Absent } else { TestedText::Unknown };
    if is_nowhere(layout, needles) {
        return absent();
    }
    let Some((_, sample)) = sample_line(layout) else { return TestedText::Unknown };
    let found = match is_json_line {
        true => json::lookup_text(&sample.bytes, name).map(|text| match text {
            [b'"', inner @ .., b'"'] => Some((inner, FieldRole::JsonString)),
            [b'{' | b'[', ..] => None,
            word => Some((word, FieldRole::JsonWord)),
        }),
        false => logfmt::lookup_text(&sample.bytes, name).map(|text| match text {
            logfmt::ValueText::Quoted(text) => Some((text, FieldRole::QuotedToken)),
            logfmt::ValueText::Bare(text) => Some((text, FieldRole::TokenRest)),
        }),
    };
    let Some(found) = found else { return absent() };
    let range = found.and_then(|(text, role)| Some((sample.range(text)?, role)));
    range.map_or(TestedText::Unknown, |(range, role)| TestedText::At(range, role))
}

/// Whether no line of the layout has a key with all of these texts. A key is in the literals of a layout that is read.
fn is_nowhere(layout: &[LayoutPart<'_>], needles: &[Needle]) -> bool {
    let mut literals = Vec::new();
    for part in layout {
        match part {
            LayoutPart::Literal(text) => literals.extend_from_slice(text),
            LayoutPart::Value => literals.push(0),
        }
    }
    let has_escapes = memchr::memchr(b'\\', &literals).is_some();
    !has_escapes && needles.iter().any(|needle| needle.find(&literals, 0).is_none())
}

/// A line of a layout with sample values.
struct SampleLine {
    bytes: Vec<u8>,
    /// Of each part.
    spans: Vec<Range<usize>>,
}

impl SampleLine {
    fn push(&mut self, text: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        self.spans.push(start..self.bytes.len());
    }

    /// Where a part of the line is in the layout.
    fn range(&self, text: &[u8]) -> Option<Range<LayoutOffset>> {
        let start = text.as_ptr().addr().checked_sub(self.bytes.as_ptr().addr())?;
        let offset_of = |at: usize| {
            let part = self.spans.iter().position(|span| span.contains(&at))?;
            Some(LayoutOffset { part, offset: at - self.spans.get(part)?.start })
        };
        let first = offset_of(start)?;
        let Some(last) = text.len().checked_sub(1) else { return Some(first..first) };
        let last = offset_of(start + last)?;
        Some(first..LayoutOffset { offset: last.offset + 1, ..last })
    }
}

/// The roles of the values of a JSON line.
fn json_roles(layout: &[LayoutPart<'_>], sample: &mut SampleLine) -> Option<Vec<FieldRole>> {
    let (mut roles, mut in_string, mut is_escaped) = (Vec::new(), false, false);
    // Whether the last string has a value, and so must not be a key.
    let mut has_value = false;
    for part in layout {
        let LayoutPart::Literal(text) = part else {
            if is_escaped {
                return None;
            }
            has_value = in_string;
            let role = if in_string { FieldRole::JsonString } else { FieldRole::JsonWord };
            roles.push(role);
            sample.push(&[role.sample()]);
            continue;
        };
        for byte in *text {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_string => is_escaped = true,
                b'"' => {
                    in_string = !in_string;
                    has_value &= !in_string;
                }
                b':' if !in_string && has_value => return None,
                _ if in_string || byte.is_ascii_whitespace() => {}
                _ => has_value = false,
            }
        }
        sample.push(text);
    }
    Some(roles)
}

/// What the next byte of a logfmt line is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LogfmtPlace {
    /// Between two tokens.
    Blank,
    /// A token, before any `=` and quote. Whether a value is in it.
    Key { has_value: bool },
    /// Behind `=`.
    ValueStart,
    /// In quotes.
    Quoted { is_escaped: bool },
    /// A token up to its end.
    Rest,
}

/// The roles of the values of a line that is not JSON.
fn logfmt_roles(layout: &[LayoutPart<'_>], sample: &mut SampleLine) -> Option<Vec<FieldRole>> {
    let (mut roles, mut place) = (Vec::new(), LogfmtPlace::Blank);
    for part in layout {
        let LayoutPart::Literal(text) = part else {
            let is_first = sample.bytes.iter().all(u8::is_ascii_whitespace);
            let role;
            (role, place) = match place {
                LogfmtPlace::Blank if is_first => (FieldRole::FirstToken, LogfmtPlace::Key { has_value: true }),
                LogfmtPlace::Blank | LogfmtPlace::Key { .. } => {
                    (FieldRole::Token, LogfmtPlace::Key { has_value: true })
                }
                LogfmtPlace::ValueStart | LogfmtPlace::Rest => (FieldRole::TokenRest, LogfmtPlace::Rest),
                LogfmtPlace::Quoted { is_escaped: true } => return None,
                LogfmtPlace::Quoted { .. } => (FieldRole::QuotedToken, place),
            };
            roles.push(role);
            sample.push(&[role.sample()]);
            continue;
        };
        for byte in *text {
            let is_blank = byte.is_ascii_whitespace();
            place = match (place, byte) {
                (LogfmtPlace::Quoted { is_escaped: true }, _) => LogfmtPlace::Quoted { is_escaped: false },
                (LogfmtPlace::Quoted { .. }, b'\\') => LogfmtPlace::Quoted { is_escaped: true },
                (LogfmtPlace::Quoted { .. }, b'"') => LogfmtPlace::Rest,
                (LogfmtPlace::Quoted { .. }, _) => place,
                _ if is_blank => LogfmtPlace::Blank,
                (LogfmtPlace::Key { has_value: true }, b'=') => return None,
                (LogfmtPlace::Blank | LogfmtPlace::Key { .. }, b'=') => LogfmtPlace::ValueStart,
                (LogfmtPlace::Blank | LogfmtPlace::Key { .. }, b'"') => LogfmtPlace::Rest,
                (LogfmtPlace::Blank, _) => LogfmtPlace::Key { has_value: false },
                (LogfmtPlace::Key { .. }, _) => place,
                (LogfmtPlace::ValueStart, b'"') => LogfmtPlace::Quoted { is_escaped: false },
                (LogfmtPlace::ValueStart | LogfmtPlace::Rest, _) => LogfmtPlace::Rest,
            };
        }
        sample.push(text);
    }
    Some(roles)
}
