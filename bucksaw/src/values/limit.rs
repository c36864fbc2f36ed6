//! Optional limits.

use std::time::Duration;

use bucksaw_record::time::{InvalidTime, parse_duration};

use super::byte_size::ByteSize;

/// A limit, or `None` for the word `none`, with which a flag can remove the limit of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OptionalLimit<T>(pub(crate) Option<T>);

const NONE: &str = "none";

impl OptionalLimit<Duration> {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidTime> {
        if text == NONE { Ok(Self(None)) } else { parse_duration(text).map(|age| Self(Some(age))) }
    }
}

impl OptionalLimit<ByteSize> {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text == NONE { Ok(Self(None)) } else { text.parse().map(|size| Self(Some(size))) }
    }
}
