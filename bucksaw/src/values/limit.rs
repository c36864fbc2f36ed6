//! Limits that can be left out.

use std::time::Duration;

use bucksaw_record::time::{InvalidTime, parse_duration};

use super::byte_size::{ByteSize, InvalidSize};

/// A limit, or `None` for the word `none`. It has to be a word, so that a flag can lift what a file has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OptionalLimit<T>(pub(crate) Option<T>);

const NONE: &str = "none";

impl OptionalLimit<Duration> {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidTime> {
        if text == NONE { Ok(Self(None)) } else { parse_duration(text).map(|age| Self(Some(age))) }
    }
}

impl OptionalLimit<ByteSize> {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidSize> {
        if text == NONE { Ok(Self(None)) } else { text.parse().map(|size| Self(Some(size))) }
    }
}
