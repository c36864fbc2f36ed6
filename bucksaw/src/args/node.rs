//! Which node to call, and how long to wait for it.

use std::time::Duration;

use clap::Args;

use super::{ClientTlsArgs, PresentedTokenArgs};
use crate::values::{NodeUrl, time_limit};

/// The node, and a time limit.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeArgs {
    /// Node to call, such as http://10.0.0.1:7650, localhost:7650, or :7650 for this machine; https:// for TLS
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7650")]
    pub(crate) addr: NodeUrl,

    /// Give up if the answer is not complete after this time, such as 10s
    ///
    /// For tail, if it has not begun. Without it, a node is given up that sends nothing for 10s and then answers no
    /// health check.
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    pub(crate) timeout: Option<Duration>,

    #[command(flatten)]
    pub(crate) token: PresentedTokenArgs,

    #[command(flatten)]
    pub(crate) tls: ClientTlsArgs,
}
