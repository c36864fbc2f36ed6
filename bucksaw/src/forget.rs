//! `bucksaw forget`: takes a node that will not come back from the cluster's list.

use clap::Args;

use crate::exit::Exit;
use crate::values::NodeUrl;
use crate::{interrupt, node_client};

/// Take a node that will not come back from the cluster's list
///
/// A node that is down counts as missing in every answer over the time of what it holds, until it is back. After this it
/// does not; what only it held is lost. A node that is alive is not forgotten.
#[derive(Clone, Debug, Args)]
pub(crate) struct ForgetArgs {
    /// Its id, as status shows it
    #[arg(value_name = "ID")]
    id: String,

    /// Node to ask; it tells the others
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7650")]
    addr: NodeUrl,
}

pub(crate) fn run(args: ForgetArgs) -> anyhow::Result<Exit> {
    interrupt::exit_on_interrupt()?;
    let path = node_client::path("/api/v1/forget", &[("node", &args.id)]);
    node_client::runtime()?.block_on(node_client::post(&args.addr, &path))?;
    Ok(Exit::Done)
}
