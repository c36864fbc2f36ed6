//! Properties of librdkafka that users set.

use std::fmt;

/// Properties that flags or the source itself decide, with what to use in their place.
const RESERVED: [(&str, &str); 9] = [
    ("bootstrap.servers", "use --kafka-brokers"),
    ("metadata.broker.list", "use --kafka-brokers"),
    ("group.id", "use --kafka-group"),
    ("auto.offset.reset", "use --kafka-start"),
    ("enable.auto.commit", "offsets are committed after the records have their durability"),
    ("enable.auto.offset.store", "offsets are committed after the records have their durability"),
    ("auto.commit.interval.ms", "use --kafka-commit-interval"),
    ("enable.partition.eof", "the source has no use for it"),
    ("statistics.interval.ms", "the metrics need it"),
];

/// Parts of the names of properties with secrets.
const SECRET_PARTS: [&str; 5] = ["password", "secret", ".pem", "oauthbearer.config", "passphrase"];

/// One property of librdkafka, such as `security.protocol=SASL_SSL`. `Debug` and `Display` hide the values of secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientOption {
    /// The name of the property.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Why a text is no [`ClientOption`]. No message has the value, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOption {
    /// No `=` follows the name.
    #[error("write an option as NAME=VALUE, such as security.protocol=SSL")]
    MissingEquals,
    /// Another setting decides it.
    #[error("`{0}` cannot be set: {1}")]
    Reserved(&'static str, &'static str),
}

impl ClientOption {
    /// Parses `NAME=VALUE`. librdkafka checks name and value when a consumer is made.
    ///
    /// # Errors
    /// [`InvalidOption`].
    pub fn parse(text: &str) -> Result<Self, InvalidOption> {
        let (name, value) = text.split_once('=').ok_or(InvalidOption::MissingEquals)?;
        let name = name.trim();
        if name.is_empty() {
            return Err(InvalidOption::MissingEquals);
        }
        if let Some((reserved, instead)) = RESERVED.iter().find(|(reserved, _)| *reserved == name) {
            return Err(InvalidOption::Reserved(reserved, instead));
        }
        Ok(Self { name: name.to_owned(), value: value.trim().to_owned() })
    }

    /// Parses a file of options, one a line. Empty lines and those that begin with `#` are passed over.
    ///
    /// # Errors
    /// The number of the first invalid line, and what is wrong.
    pub fn parse_lines(text: &str) -> Result<Vec<Self>, (usize, InvalidOption)> {
        let lines = (1..).zip(text.lines().map(str::trim));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        lines.map(|(number, line)| Self::parse(line).map_err(|error| (number, error))).collect()
    }

    /// Whether the value is not to be shown.
    pub fn is_secret(&self) -> bool {
        is_secret(&self.name)
    }
}

/// Whether the value of a property is not to be shown.
pub(crate) fn is_secret(name: &str) -> bool {
    SECRET_PARTS.iter().any(|part| name.contains(part))
}

impl fmt::Display for ClientOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, if self.is_secret() { "<hidden>" } else { &self.value })
    }
}

impl fmt::Debug for ClientOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_parse() {
        let check = |text: &str, want: &str| {
            let got = ClientOption::parse(text).map_or_else(|error| error.to_string(), |option| option.to_string());
            assert_eq!(got, want, "{text}");
        };
        check("security.protocol = SASL_SSL", "security.protocol=SASL_SSL");
        check("sasl.username=a=b", "sasl.username=a=b");
        check("sasl.password=hunter2", "sasl.password=<hidden>");
        check("ssl.key.password=hunter2", "ssl.key.password=<hidden>");
        check("ssl.key.pem=hunter2", "ssl.key.pem=<hidden>");
        check("sasl.oauthbearer.client.secret=hunter2", "sasl.oauthbearer.client.secret=<hidden>");
        check("hunter2", "write an option as NAME=VALUE, such as security.protocol=SSL");
        check("=hunter2", "write an option as NAME=VALUE, such as security.protocol=SSL");
        check("group.id=x", "`group.id` cannot be set: use --kafka-group");
        let secret = ClientOption::parse("sasl.password=hunter2").unwrap();
        assert_eq!((format!("{secret:?}"), &*secret.value), ("sasl.password=<hidden>".to_owned(), "hunter2"));
    }

    #[test]
    fn a_file_has_one_option_a_line() {
        let options =
            ClientOption::parse_lines("# TLS\n\nsecurity.protocol=SSL\n ssl.ca.location=/ca.pem \r\n").unwrap();
        let texts: Vec<String> = options.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["security.protocol=SSL", "ssl.ca.location=/ca.pem"]);
        assert_eq!(ClientOption::parse_lines("a=b\n\nx\n"), Err((3, InvalidOption::MissingEquals)));
    }
}
