//! The labels of a stream: names and values that all of its records share.

use std::fmt;
use std::sync::Arc;

/// The labels of one stream, sorted by name, each name once. Cheap to clone.
#[derive(Clone, Debug, Default, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "equal labels have equal pairs, which are hashed")]
pub struct Labels(Arc<[(Box<str>, Box<str>)]>);

impl PartialEq for Labels {
    /// Labels that are compared are clones as a rule, so that no text is read.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || *self.0 == *other.0
    }
}

/// Why labels are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidLabels {
    /// No `=` follows the name.
    #[error("label `{0}` has no `=`: write labels as k=v,k2=v2")]
    MissingEquals(String),
    /// The name is not `[A-Za-z_][A-Za-z0-9_.-]*`.
    #[error("label name `{0}` is not a letter or `_` followed by letters, digits, `_`, `.`, `-`")]
    InvalidName(String),
    /// A name occurs twice.
    #[error("label `{0}` is given twice")]
    Duplicate(String),
    /// A quoted value does not end.
    #[error("the quoted value of label `{0}` does not end")]
    UnclosedQuote(String),
    /// More labels than [`Labels::COUNT_MAX`].
    #[error("more than {max} labels", max = Labels::COUNT_MAX)]
    TooMany,
    /// A name is longer than [`Labels::NAME_BYTES_MAX`], or a value than [`Labels::VALUE_BYTES_MAX`].
    #[error("label `{0}` is too long: a name may have {name} bytes, a value {value}", name = Labels::NAME_BYTES_MAX, value = Labels::VALUE_BYTES_MAX)]
    TooLong(String),
    /// The encoded form is damaged.
    #[error("invalid label encoding")]
    InvalidEncoding,
}

impl Labels {
    /// Maximum number of labels of a stream. Each block repeats them.
    pub const COUNT_MAX: usize = 64;
    /// Maximum bytes of a name.
    pub const NAME_BYTES_MAX: usize = 128;
    /// Maximum bytes of a value.
    pub const VALUE_BYTES_MAX: usize = 1_024;
    /// The name of the label that only Bucksaw itself writes. Its streams are *reserved*: they hold what Bucksaw records about
    /// itself, such as its audit trail, and no client writes to them.
    pub const RESERVED_NAME: &str = "_bucksaw";

    /// Labels from pairs in any order. Pairs with an empty value are dropped.
    ///
    /// # Errors
    /// The first [`InvalidLabels`] found.
    pub fn new<N: Into<String>, V: Into<String>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, InvalidLabels> {
        let mut list: Vec<(Box<str>, Box<str>)> = Vec::new();
        for (name, value) in pairs {
            let (name, value): (String, String) = (name.into(), value.into());
            if !is_name(&name) {
                return Err(InvalidLabels::InvalidName(name));
            }
            if name.len() > Self::NAME_BYTES_MAX || value.len() > Self::VALUE_BYTES_MAX {
                return Err(InvalidLabels::TooLong(name.chars().take(40).collect()));
            }
            if !value.is_empty() {
                list.push((name.into(), value.into()));
            }
        }
        if list.len() > Self::COUNT_MAX {
            return Err(InvalidLabels::TooMany);
        }
        list.sort_unstable();
        for pair in list.windows(2) {
            if let [(first, _), (second, _)] = pair
                && first == second
            {
                return Err(InvalidLabels::Duplicate(first.to_string()));
            }
        }
        Ok(Self(list.into()))
    }

    /// Parses labels as typed on a command line: `k=v,k2=v2`. A value that contains a comma or a quote is quoted, with
    /// `\"` and `\\` as escapes: `path="/a,b"`.
    ///
    /// # Errors
    /// The first [`InvalidLabels`] found.
    pub fn parse(text: &str) -> Result<Self, InvalidLabels> {
        let mut pairs = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let Some((name, after)) = rest.split_once('=') else {
                return Err(InvalidLabels::MissingEquals(rest.chars().take(40).collect()));
            };
            let name = name.trim();
            let value;
            if let Some(quoted) = after.strip_prefix('"') {
                (value, rest) = unquote(quoted).ok_or_else(|| InvalidLabels::UnclosedQuote(name.to_owned()))?;
                rest = match rest.trim_start().strip_prefix(',') {
                    Some(next) => next,
                    None if rest.trim_start().is_empty() => "",
                    None => return Err(InvalidLabels::UnclosedQuote(name.to_owned())),
                };
            } else {
                let (plain, next) = after.split_once(',').unwrap_or((after, ""));
                value = plain.trim().to_owned();
                rest = next;
            }
            pairs.push((name.to_owned(), value));
        }
        Self::new(pairs)
    }

    /// The value of a label.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(label, _)| **label == *name).map(|(_, value)| &**value)
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Whether these are the labels of a reserved stream.
    pub fn is_reserved(&self) -> bool {
        self.get(Self::RESERVED_NAME).is_some()
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the encoding of files and messages: for each label the length of the name in one byte, the name, the length
    /// of the value in two bytes (little-endian), the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for (name, value) in self.0.iter() {
            // `new` bounds both lengths.
            out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
            out.extend_from_slice(value.as_bytes());
        }
    }

    /// Decodes the bytes of [`Self::encode`].
    ///
    /// # Errors
    /// [`InvalidLabels`] if the bytes are not such an encoding.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, InvalidLabels> {
        let mut pairs = Vec::new();
        while let Some((length, after)) = bytes.split_first() {
            let (name, after) = after.split_at_checked(usize::from(*length)).ok_or(InvalidLabels::InvalidEncoding)?;
            let (length, after) = after.split_first_chunk::<2>().ok_or(InvalidLabels::InvalidEncoding)?;
            let length = usize::from(u16::from_le_bytes(*length));
            let (value, after) = after.split_at_checked(length).ok_or(InvalidLabels::InvalidEncoding)?;
            let text = |part| str::from_utf8(part).map_err(|_| InvalidLabels::InvalidEncoding);
            pairs.push((text(name)?, text(value)?));
            bytes = after;
        }
        Self::new(pairs)
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if value.contains([',', '"', '\\', ' ']) {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                write!(f, "{comma}{name}=\"{value}\"")?;
            } else {
                write!(f, "{comma}{name}={value}")?;
            }
        }
        Ok(())
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// The value up to the closing quote, and the text after it.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, letter)) = chars.next() {
        match letter {
            '"' => return Some((value, quoted.get(at + 1..)?)),
            '\\' => value.push(chars.next()?.1),
            _ => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_parse() {
        let check = |text: &str, want: &str| {
            let got = Labels::parse(text).map_or_else(|error| error.to_string(), |labels| labels.to_string());
            assert_eq!(got, want, "{text}");
        };
        check("", "");
        check("b=2,a=1", "a=1,b=2");
        check(" a = x y , b=2", "a=\"x y\",b=2");
        check(r#"a="x,\"y\"",b=2"#, r#"a="x,\"y\"",b=2"#);
        check("a=b=c", "a=b=c");
        check("a=", "");
        check("a", "label `a` has no `=`: write labels as k=v,k2=v2");
        check("a=1,a=2", "label `a` is given twice");
        check("1a=1", "label name `1a` is not a letter or `_` followed by letters, digits, `_`, `.`, `-`");
        check("a=\"x", "the quoted value of label `a` does not end");
    }

    #[test]
    fn limits_are_enforced() {
        assert!(Labels::new([("a", "x".repeat(Labels::VALUE_BYTES_MAX))]).is_ok());
        assert!(matches!(
            Labels::new([("a", "x".repeat(Labels::VALUE_BYTES_MAX + 1))]),
            Err(InvalidLabels::TooLong(_))
        ));
        let many = (0..=Labels::COUNT_MAX).map(|n| (format!("l{n}"), "x"));
        assert_eq!(Labels::new(many), Err(InvalidLabels::TooMany));
    }

    proptest! {
        #[test]
        fn encoding_and_text_round_trip(pairs in prop::collection::btree_map("[a-z_][a-z0-9_.-]{0,8}", "\\PC{1,12}", 0..8)) {
            let labels = Labels::new(pairs).unwrap();
            let mut bytes = Vec::new();
            labels.encode(&mut bytes);
            prop_assert_eq!(Labels::decode(&bytes), Ok(labels.clone()));
            if labels.iter().all(|(_, value)| value.trim() == value) {
                prop_assert_eq!(Labels::parse(&labels.to_string()), Ok(labels));
            }
        }

        #[test]
        fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Labels::decode(&bytes);
        }
    }
}
