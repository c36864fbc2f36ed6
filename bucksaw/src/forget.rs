//! `bucksaw forget`: removes a node that will not return from the member list.

use clap::Args;

use crate::args::NodeArgs;
use crate::exit::Exit;
use crate::interrupt;
use crate::node_client::{self, NodeClient};

/// Remove a node that will not return from the member list
///
/// While a node is down, answers over the time of its records are partial. Once it is forgotten they are not, and
/// records that only it holds are lost. A node that is alive cannot be forgotten. The node that is called informs the
/// other nodes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ForgetArgs {
    /// Id of the node, as printed by status
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &ForgetArgs) -> anyhow::Result<Exit> {
    interrupt::exit_on_interrupt()?;
    let path = node_client::path("/api/v1/forget", &[("node", &args.id)]);
    node_client::runtime()?.block_on(async { NodeClient::new(&args.node)?.post(&path).await })?;
    Ok(Exit::Done)
}
