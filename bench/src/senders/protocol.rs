//! The protocols that are measured.

use clap::ValueEnum;

use super::messages;

/// A protocol of other log systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SenderProtocol {
    /// Loki push: protobuf with snappy
    Loki,
    /// Elasticsearch `_bulk`
    Elasticsearch,
    /// OTLP over HTTP: protobuf
    Otlp,
    /// OTLP over gRPC
    OtlpGrpc,
    /// Syslog over TCP: RFC 5424 with octet counting
    Syslog,
    /// Fluentd forward: packed messages
    Fluent,
}

impl SenderProtocol {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// A request or message with these lines.
    pub(crate) fn message(self, lines: &[&str]) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Loki => messages::loki(lines),
            Self::Elasticsearch => Ok(messages::elasticsearch(lines)),
            Self::Otlp | Self::OtlpGrpc => Ok(messages::otlp(lines)),
            Self::Syslog => Ok(messages::syslog(lines)),
            Self::Fluent => messages::fluent(lines),
        }
    }

    /// Whether it is TCP without HTTP.
    pub(super) fn is_stream(self) -> bool {
        matches!(self, Self::Syslog | Self::Fluent)
    }
}
