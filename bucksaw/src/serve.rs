//! `bucksaw serve`: runs a node.

use anyhow::bail;

use crate::args::{Role, ServeArgs};
use crate::exit::Exit;

pub(crate) fn run(args: ServeArgs) -> anyhow::Result<Exit> {
    let ServeArgs {
        roles,
        data_dir,
        listen,
        listen_fast,
        listen_durable,
        listen_bulk,
        listen_cluster,
        join,
        replication_factor,
        retention_age,
        retention_bytes,
        segment_max_bytes,
        segment_max_age,
        store_segment_bytes,
        max_record_bytes,
    } = args;
    let addresses: Vec<_> =
        [&listen, &listen_fast, &listen_durable, &listen_bulk, &listen_cluster].map(|listen| listen.0.clone()).into();
    let roles = roles.contains(&Role::Store);
    bail!(
        "no node is built in yet: {roles:?} {} {addresses:?} {join:?} {replication_factor} {:?} {:?} {} \
         {segment_max_age:?} {} {}",
        data_dir.display(),
        retention_age.0,
        retention_bytes.0,
        segment_max_bytes.0,
        store_segment_bytes.0,
        max_record_bytes.0
    )
}
