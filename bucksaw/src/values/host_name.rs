//! A host name as people type it, without a port. It is not looked up.

use std::fmt;
use std::str::FromStr;

/// A host name such as `logs.example.com`, or `*` for every name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostName(String);

/// Why a text is not a [`HostName`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a host name without port such as logs.example.com, or *")]
pub(crate) struct InvalidHostName;

impl FromStr for HostName {
    type Err = InvalidHostName;

    fn from_str(text: &str) -> Result<Self, InvalidHostName> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = !text.is_empty() && text.len() <= 255 && text.bytes().all(fits);
        if text == "*" || is_name { Ok(Self(text.to_owned())) } else { Err(InvalidHostName) }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_port_and_no_scheme() {
        let check = |text: &str, want: bool| assert_eq!(text.parse::<HostName>().is_ok(), want, "{text}");
        for text in ["*", "localhost", "logs.example.com", "bucksaw-0.bucksaw", "a_b", "logs.example.com."] {
            check(text, true);
        }
        for text in ["", "a:1", "http://a", "*.example.com", "a/b", "a b", "[::1]"] {
            check(text, false);
        }
    }
}
