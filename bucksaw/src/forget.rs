//! `bucksaw forget`: removes a node that will not return from the member list.

use clap::Args;

use crate::exit::Exit;
use crate::values::NodeUrl;
use crate::{interrupt, node_client};

/// Remove a node that will not return from the member list
///
/// While a node is down, answers over the time of its records are partial. Once it is forgotten they are not, and
/// records that only it holds are lost. A node that is alive cannot be forgotten.
#[derive(Clone, Debug, Args)]
pub(crate) struct ForgetArgs {
    /// Id of the node, as printed by status
    #[arg(value_name = "ID")]
    id: String,

    /// Node to send the request to; it informs the others
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7650")]
    addr: NodeUrl,
}

pub(crate) fn run(args: ForgetArgs) -> anyhow::Result<Exit> {
    interrupt::exit_on_interrupt()?;
    let path = node_client::path("/api/v1/forget", &[("node", &args.id)]);
    node_client::runtime()?.block_on(node_client::post(&args.addr, &path))?;
    Ok(Exit::Done)
}
