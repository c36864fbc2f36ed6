//! Where generated lines go.

use std::str::FromStr;
use std::time::Duration;

use bucksaw_ingest::Durability;

use super::producer::LoadPace;
use crate::values::{HostPort, NodeUrl};

/// A node and its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoadTarget {
    /// `bucksaw://HOST[:PORT]`: the framed protocol, as of `forward`.
    Framed { host: String, port: Option<u16> },
    /// `http[s]://HOST:PORT`: bodies of lines.
    Http(NodeUrl),
    /// `grpc://HOST:PORT`: the service `bucksaw.v1`.
    Grpc(HostPort),
    /// `kafka://HOST:PORT/TOPIC`: a broker.
    Kafka { broker: HostPort, topic: String },
}

const SYNTAX: &str = "expected http://HOST:PORT, grpc://HOST:PORT, kafka://HOST:PORT/TOPIC, or bucksaw://HOST:PORT for the \
                      framed protocol";

const FRAMED: &str = "bucksaw://";
const GRPC: &str = "grpc://";
const KAFKA: &str = "kafka://";

/// The longest name of a topic that Kafka allows.
const TOPIC_BYTES_MAX: usize = 249;

impl LoadTarget {
    /// How the lines of a target are divided; `None` is standard output.
    pub(super) fn pace(target: Option<&Self>) -> LoadPace {
        match target {
            None => LoadPace { tick: Duration::from_millis(10), batch_bytes: 64 << 10 },
            Some(Self::Framed { .. } | Self::Kafka { .. }) => {
                LoadPace { tick: Duration::from_millis(10), batch_bytes: 128 << 10 }
            }
            Some(Self::Grpc(_)) => LoadPace { tick: Duration::from_millis(20), batch_bytes: 1 << 20 },
            // Each body is a request with a connection of its own.
            Some(Self::Http(_)) => LoadPace { tick: Duration::from_millis(100), batch_bytes: 1 << 20 },
        }
    }

    /// The address for the framed protocol, if it is the one of the target.
    pub(super) fn framed_address(&self, durability: Durability) -> Option<String> {
        let Self::Framed { host, port } = self else { return None };
        let port = port.unwrap_or(match durability {
            Durability::Fast => 7_651,
            Durability::Durable => 7_652,
            Durability::Bulk => 7_653,
        });
        Some(HostPort { host: host.clone(), port }.to_string())
    }
}

impl FromStr for LoadTarget {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(address) = text.strip_prefix(FRAMED) {
            if let Ok(HostPort { host, port }) = address.parse() {
                return Ok(Self::Framed { host, port: Some(port) });
            }
            // With any port it is an address.
            let HostPort { host, .. } = format!("{address}:0").parse().map_err(|_| SYNTAX)?;
            return Ok(Self::Framed { host, port: None });
        }
        if let Some(address) = text.strip_prefix(GRPC) {
            return address.parse().map(Self::Grpc).map_err(|_| SYNTAX);
        }
        if let Some(place) = text.strip_prefix(KAFKA) {
            let (broker, topic) = place.split_once('/').ok_or(SYNTAX)?;
            let is_valid = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
            if topic.is_empty() || topic.len() > TOPIC_BYTES_MAX || !topic.chars().all(is_valid) {
                return Err("expected a topic of Kafka: letters, digits, `.`, `_` and `-`");
            }
            return Ok(Self::Kafka { broker: broker.parse().map_err(|_| SYNTAX)?, topic: topic.to_owned() });
        }
        match text.contains("://") {
            true => text.parse().map(Self::Http),
            false => Err(SYNTAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed() {
        let check = |text: &str, want: Result<Option<&str>, &str>| {
            let parsed = text.parse::<LoadTarget>();
            let got = parsed.as_ref().map(|target| target.framed_address(Durability::Durable)).map_err(|error| *error);
            assert_eq!(got, want.map(|address| address.map(str::to_owned)), "{text}");
        };
        check("bucksaw://10.0.0.1:9", Ok(Some("10.0.0.1:9")));
        check("bucksaw://[::1]:9", Ok(Some("[::1]:9")));
        check("bucksaw://node-1", Ok(Some("node-1:7652")));
        check("bucksaw://[::1]", Ok(Some("[::1]:7652")));
        check("http://127.0.0.1:7650", Ok(None));
        check("https://127.0.0.1:7650", Ok(None));
        check("grpc://[::1]:4317", Ok(None));
        check("kafka://node-1:9092/app.logs_1", Ok(None));
        for text in ["kafka://h:1/", "kafka://h:1/a b", "kafka://h:1/a/b"] {
            check(text, Err("expected a topic of Kafka: letters, digits, `.`, `_` and `-`"));
        }
        for text in ["grpc://h", "grpc://h:1/x", "kafka://h:1", "kafka://h/topic"] {
            check(text, Err(SYNTAX));
        }
        for text in ["", "bucksaw://", "bucksaw://:9", "bucksaw://a b", "bucksaw://::1", "127.0.0.1:7651"] {
            check(text, Err(SYNTAX));
        }
        assert!("ftp://a".parse::<LoadTarget>().is_err());
    }
}
