//! Host names without a port. They are not resolved.

use std::str::FromStr;

/// A host name such as `logs.example.com`, or `*` for every name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostName(pub(crate) String);

impl FromStr for HostName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = !text.is_empty() && text.len() <= 255 && text.bytes().all(fits);
        match text == "*" || is_name {
            true => Ok(Self(text.to_owned())),
            false => Err("expected a host name without port such as logs.example.com, or *"),
        }
    }
}

/// The name of this machine.
pub(crate) fn machine_name() -> String {
    String::from_utf8_lossy(rustix::system::uname().nodename().to_bytes()).into_owned()
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
