//! Sends and receives [`PASS_STATUS`] requests.

use std::io;

use bucksaw_env::{Body, with_timeout};

use super::pass_status::{PASS_STATUS, PassStatusReply, PassStatusRequest};
use crate::peers::Peer;
use crate::replication_context::{ReplicationContext, timed_out};

/// Maximum size of a message.
const BYTES_MAX: usize = 4 << 10;

/// Requests the pass status of another store.
pub(crate) async fn request_pass_status(
    context: &ReplicationContext,
    peer: Peer,
    request: PassStatusRequest,
) -> io::Result<PassStatusReply> {
    let body = Body::whole(serde_json::to_vec(&request)?);
    let reply = async { context.net.call(peer.address, PASS_STATUS, body).await?.read_all(BYTES_MAX).await };
    let bytes = with_timeout(&context.tasks, context.timeouts.answer, reply).await.ok_or_else(timed_out)??;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Reads a request.
pub(crate) async fn read_request(context: &ReplicationContext, body: Body) -> io::Result<PassStatusRequest> {
    let bytes = with_timeout(&context.tasks, context.timeouts.answer, body.read_all(BYTES_MAX))
        .await
        .ok_or_else(timed_out)??;
    Ok(serde_json::from_slice(&bytes)?)
}
