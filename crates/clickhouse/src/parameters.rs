//! Parameters of statements: values that ClickHouse binds to `{name:Type}`, sent beside the statement.

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

/// Maximum bytes of all values of a statement. They are a part of the URL, which may have 64 KiB after three bytes for each.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 10;

/// The values of a statement, by number: `{p0:String}`, `{p1:UInt128}`, …
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters {
    values: Vec<Vec<u8>>,
    bytes: usize,
}

impl Parameters {
    /// Adds a string of any bytes. Returns its place in the statement; `None` if there is no room for it.
    pub(crate) fn text(&mut self, value: &[u8]) -> Option<String> {
        // The server reads a value as a field of its tab-separated format.
        let mut escaped = Vec::with_capacity(value.len());
        for byte in value {
            match byte {
                b'\\' => escaped.extend_from_slice(b"\\\\"),
                b'\t' => escaped.extend_from_slice(b"\\t"),
                b'\n' => escaped.extend_from_slice(b"\\n"),
                b'\r' => escaped.extend_from_slice(b"\\r"),
                0 => escaped.extend_from_slice(b"\\0"),
                other => escaped.push(*other),
            }
        }
        self.add(escaped, "String")
    }

    /// Adds a number. For the ids of a range there is always room.
    pub(crate) fn number(&mut self, value: u128) -> Option<String> {
        const DIGITS_MAX: usize = 39;
        self.bytes = self.bytes.saturating_sub(DIGITS_MAX);
        self.add(value.to_string().into_bytes(), "UInt128")
    }

    fn add(&mut self, value: Vec<u8>, kind: &str) -> Option<String> {
        let bytes = self.bytes + value.len();
        if bytes > VALUE_BYTES_MAX {
            return None;
        }
        self.bytes = bytes;
        let place = format!("{{p{}:{kind}}}", self.values.len());
        self.values.push(value);
        Some(place)
    }

    /// The part of the query string, with a leading `&` for each.
    pub(crate) fn query_string(&self) -> String {
        let values = self.values.iter().enumerate();
        values.map(|(at, value)| format!("&param_p{at}={}", percent_encode(value, NON_ALPHANUMERIC))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_bounded() {
        let mut parameters = Parameters::default();
        assert_eq!(parameters.text(b"a\\\t\n\0\xff'"), Some("{p0:String}".to_owned()));
        assert_eq!(parameters.number(7), Some("{p1:UInt128}".to_owned()));
        assert_eq!(parameters.query_string(), "&param_p0=a%5C%5C%5Ct%5Cn%5C0%FF%27&param_p1=7");
        assert_eq!(parameters.text(&vec![b'x'; VALUE_BYTES_MAX]), None);
        assert_eq!(parameters.number(8), Some("{p2:UInt128}".to_owned()));
    }
}
