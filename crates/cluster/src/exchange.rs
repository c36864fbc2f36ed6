//! The call `cluster/facts`: two nodes compare all that they know.
//!
//! Question and answer are the same: `{"protocol": 1, "members": […]}`, all of the one side and all of the other.
//! It is how a node joins, how facts arrive whose datagrams were lost, and how nodes that are down stay known.

use std::io;

use bucksaw_doors::Body;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::PROTOCOL;
use crate::entry::Entry;
use crate::table::MEMBERS_MAX;

/// The name of the call.
pub(crate) const NAME: &str = "cluster/facts";

/// Room for all nodes that may be known, each at its largest.
const BYTES_MAX: usize = 2 << 20;

#[derive(Serialize)]
struct Written<'a> {
    protocol: u32,
    members: &'a [Entry],
}

#[derive(Deserialize)]
struct Read<'a> {
    protocol: u32,
    #[serde(borrow)]
    members: Vec<&'a RawValue>,
}

/// What a node tells.
pub(crate) fn write(entries: &[Entry]) -> io::Result<Body> {
    Ok(Body::whole(serde_json::to_vec(&Written { protocol: PROTOCOL, members: entries })?))
}

/// What another node told. The first is about itself. Nodes that make no sense are left out.
///
/// # Errors
/// `InvalidData` when it is not what is expected; what cut it off.
pub(crate) async fn read(body: Body) -> io::Result<Vec<Entry>> {
    let bytes = body.read_all(BYTES_MAX).await?;
    let read: Read<'_> = serde_json::from_slice(&bytes)?;
    if read.protocol != PROTOCOL {
        let words = format!("it speaks version {} of the cluster protocol, this node {PROTOCOL}", read.protocol);
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    let members = read.members.into_iter().take(MEMBERS_MAX + 1);
    let members = members.filter_map(|member| serde_json::from_str::<Entry>(member.get()).ok());
    Ok(members.filter(Entry::is_sound).collect())
}
