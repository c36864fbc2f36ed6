//! Limits of time and of size.

use std::time::Duration;

use bucksaw_record::time::{InvalidTime, parse_duration};

use super::byte_size::ByteSize;

/// A limit, or `None` for the word `none`, with which a flag can remove the limit of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OptionalLimit<T>(pub(crate) Option<T>);

const NONE: &str = "none";

/// A time limit of more than nothing.
pub(crate) fn time_limit(text: &str) -> Result<Duration, String> {
    let limit = parse_duration(text).map_err(|error| error.to_string())?;
    if limit.is_zero() { Err("expected a time such as 10s, more than 0".to_owned()) } else { Ok(limit) }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_are_positive() {
        assert_eq!(time_limit("300ms"), Ok(Duration::from_millis(300)));
        assert!(time_limit("0").is_err() && time_limit("0s").is_err() && time_limit("soon").is_err());
    }
}
