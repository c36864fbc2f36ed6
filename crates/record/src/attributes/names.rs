//! The names of a record's attributes.

use std::sync::Arc;

const NUL: char = '\0';

/// The names of a record's attributes in the order of their values; at least one. A name may occur twice. Cheap to clone.
#[derive(Clone, Debug, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "equal names have equal text, which is hashed")]
pub struct AttributeNames {
    /// The names, a NUL behind each. One allocation however many there are: frames of others may have a list for each record.
    text: Arc<str>,
    count: u16,
}

impl PartialEq for AttributeNames {
    /// Names that are compared are clones as a rule, so that no text is read.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.text, &other.text) || *self.text == *other.text
    }
}

/// Why names are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAttributes {
    /// No name at all.
    #[error("no attribute")]
    Empty,
    /// More names than [`AttributeNames::COUNT_MAX`].
    #[error("more than {max} attributes", max = AttributeNames::COUNT_MAX)]
    TooMany,
    /// A name is empty or longer than [`AttributeNames::NAME_BYTES_MAX`].
    #[error("an attribute's name is empty or longer than {max} bytes: `{0}`", max = AttributeNames::NAME_BYTES_MAX)]
    NameLength(String),
    /// A name contains a NUL.
    #[error("an attribute's name contains a NUL: `{0}`")]
    Nul(String),
    /// The encoded form is damaged.
    #[error("invalid encoding of attribute names")]
    InvalidEncoding,
}

impl AttributeNames {
    /// Maximum number of attributes of a record.
    pub const COUNT_MAX: usize = 256;
    /// Maximum bytes of a name.
    pub const NAME_BYTES_MAX: usize = 255;

    /// Names in order.
    ///
    /// # Errors
    /// The first [`InvalidAttributes`] found.
    pub fn new<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Result<Self, InvalidAttributes> {
        let (mut text, mut count) = (String::new(), 0_u16);
        for name in names {
            let name = name.as_ref();
            let shown = || name.chars().take(40).collect();
            if usize::from(count) == Self::COUNT_MAX {
                return Err(InvalidAttributes::TooMany);
            }
            if name.is_empty() || name.len() > Self::NAME_BYTES_MAX {
                return Err(InvalidAttributes::NameLength(shown()));
            }
            if name.contains(NUL) {
                return Err(InvalidAttributes::Nul(shown()));
            }
            text.push_str(name);
            text.push(NUL);
            count += 1;
        }
        if count == 0 { Err(InvalidAttributes::Empty) } else { Ok(Self { text: text.into(), count }) }
    }

    /// Whether these are the names in a text that has a NUL behind each.
    pub fn is(&self, names: &str) -> bool {
        *self.text == *names
    }

    /// The number of attributes.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// The names in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.text.split_terminator(NUL)
    }

    /// The position of the attribute that a field of this name means: the last with the name.
    pub fn position(&self, name: &str) -> Option<usize> {
        let behind = self.iter().rev().position(|other| other == name)?;
        self.len().checked_sub(behind + 1)
    }

    /// Appends the encoding of files and messages: for each name its length in one byte, and the name.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for name in self.iter() {
            // `new` bounds the length.
            out.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(name.as_bytes());
        }
    }

    /// Decodes the bytes of [`Self::encode`].
    ///
    /// # Errors
    /// [`InvalidAttributes`] if the bytes are not such an encoding.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, InvalidAttributes> {
        let mut names: Vec<&str> = Vec::new();
        while let Some((length, after)) = bytes.split_first() {
            let (name, after) =
                after.split_at_checked(usize::from(*length)).ok_or(InvalidAttributes::InvalidEncoding)?;
            names.push(str::from_utf8(name).map_err(|_| InvalidAttributes::InvalidEncoding)?);
            bytes = after;
        }
        Self::new(names)
    }

    /// Approximate bytes of memory.
    pub fn memory(&self) -> usize {
        2 * size_of::<usize>() + self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_are_enforced() {
        let many = |count| AttributeNames::new((0..count).map(|n| n.to_string()));
        assert!(many(AttributeNames::COUNT_MAX).is_ok());
        assert_eq!(many(AttributeNames::COUNT_MAX + 1), Err(InvalidAttributes::TooMany));
        assert_eq!(many(0), Err(InvalidAttributes::Empty));
        assert!(AttributeNames::new(["x".repeat(AttributeNames::NAME_BYTES_MAX)]).is_ok());
        assert_eq!(AttributeNames::new(["a\0b"]), Err(InvalidAttributes::Nul("a\0b".to_owned())));
        for name in [String::new(), "x".repeat(AttributeNames::NAME_BYTES_MAX + 1)] {
            assert!(matches!(AttributeNames::new([name]), Err(InvalidAttributes::NameLength(_))));
        }
    }

    #[test]
    fn the_last_of_two_equal_names_counts() {
        let names = AttributeNames::new(["a", "b", "a"]).unwrap();
        assert_eq!((names.position("a"), names.position("b"), names.position("c")), (Some(2), Some(1), None));
        assert!(names.is("a\0b\0a\0") && !names.is("a\0ba\0") && !names.is("a\0b\0"));
    }

    proptest! {
        #[test]
        fn the_encoding_round_trips(names in prop::collection::vec("\\PC{1,12}", 1..20)) {
            let names = AttributeNames::new(names).unwrap();
            let mut bytes = Vec::new();
            names.encode(&mut bytes);
            prop_assert_eq!(AttributeNames::decode(&bytes), Ok(names));
        }

        #[test]
        fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = AttributeNames::decode(&bytes);
        }
    }
}
