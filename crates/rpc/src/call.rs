//! Calls with one JSON message each way.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Net, Tasks, with_timeout};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::head::{message_body, read_message};

/// Calls a node with a JSON message and reads its JSON reply.
///
/// # Errors
/// `TimedOut` after `timeout`, `InvalidData` for an invalid reply, or an error of [`Net::call`].
pub async fn call_message<A: DeserializeOwned>(
    tasks: &Arc<dyn Tasks>,
    net: &dyn Net,
    address: SocketAddr,
    name: &str,
    request: &(impl Serialize + Sync),
    timeout: Duration,
) -> io::Result<A> {
    let body = message_body(request)?;
    let reply = async { read_message(net.call(address, name, body).await?).await };
    with_timeout(tasks, timeout, reply).await.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
}
