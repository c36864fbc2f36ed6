//! `bucksaw forward`: ships lines to a node.

use anyhow::bail;

use crate::args::{Durability, ForwardArgs};
use crate::exit::Exit;

pub(crate) fn run(args: ForwardArgs) -> anyhow::Result<Exit> {
    let ForwardArgs { paths, to, labels, durability, state_dir } = args;
    let when = match durability {
        Durability::Fast => "written",
        Durability::Durable => "synced",
    };
    bail!("no forwarder is built in yet: {paths:?} {to:?} {labels:?} {when} {}", state_dir.display())
}
