//! Flags of local listeners.

use clap::Args;

use crate::failure::UsageError;
use crate::values::{HostPort, ListenAddress};

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
    /// Refuses two listeners with one port. `status` is the address of `--listen`.
    pub(super) fn check(&self, status: &ListenAddress) -> Result<(), UsageError> {
        let all = [
            ("--listen", status),
            ("--listen-syslog", &self.listen_syslog),
            ("--listen-fluent", &self.listen_fluent),
            ("--listen-otlp", &self.listen_otlp),
            ("--listen-otlp-http", &self.listen_otlp_http),
        ];
        let fixed =
            all.iter().filter_map(|(flag, address)| Some((*flag, address.0.as_ref().filter(|at| at.port != 0)?)));
        let mut taken: Vec<(&str, &HostPort)> = Vec::new();
        for (flag, address) in fixed {
            if let Some((other, _)) = taken.iter().find(|(_, known)| *known == address) {
                let problem =
                    format!("{other} and {flag} have the same address {address}: give each a port of its own");
                return Err(UsageError(problem));
            }
            taken.push((flag, address));
        }
        Ok(())
    }

    /// Whether there is a listener.
    pub(super) fn is_any(&self) -> bool {
        let all = [&self.listen_syslog, &self.listen_fluent, &self.listen_otlp, &self.listen_otlp_http];
        all.iter().any(|address| address.0.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_listeners_with_one_port_are_refused() {
        let address = |text: &str| text.parse::<ListenAddress>().unwrap();
        let check = |status: &str, syslog: &str, otlp: &str| {
            let args = ListenArgs {
                listen_syslog: address(syslog),
                listen_fluent: address(""),
                listen_otlp: address(otlp),
                listen_otlp_http: address(""),
            };
            args.check(&address(status)).map_err(|error| error.to_string())
        };
        let same = "have the same address 127.0.0.1:514: give each a port of its own";
        assert_eq!(check("", "514", "127.0.0.1:514"), Err(format!("--listen-syslog and --listen-otlp {same}")));
        assert_eq!(check("127.0.0.1:514", "514", "515"), Err(format!("--listen and --listen-syslog {same}")));
        assert_eq!(check("0", "127.0.0.1:0", "0"), Ok(()));
        assert_eq!(check("", "127.0.0.1:514", "127.0.0.2:514"), Ok(()));
    }
}
