//! Flags of local listeners.

use clap::Args;

use crate::values::ListenAddress;

/// The listeners of an agent. They have the names and meanings of those of `serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListenArgs {
    /// Address for syslog over TCP and UDP, such as 127.0.0.1:514; off by default
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub(super) listen_syslog: ListenAddress,

    /// Address for Fluentd's forward protocol, such as 127.0.0.1:24224; off by default
    ///
    /// TCP, and UDP for heartbeats.
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub(super) listen_fluent: ListenAddress,

    /// Address for logs of OpenTelemetry over gRPC, usually port 4317; off by default
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub(super) listen_otlp: ListenAddress,

    /// Address for logs of OpenTelemetry over HTTP, usually port 4318; off by default
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub(super) listen_otlp_http: ListenAddress,
}

impl ListenArgs {
    /// Whether there is a listener.
    pub(super) fn is_any(&self) -> bool {
        let all = [&self.listen_syslog, &self.listen_fluent, &self.listen_otlp, &self.listen_otlp_http];
        all.iter().any(|address| address.0.is_some())
    }
}
