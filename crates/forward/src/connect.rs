//! Reaching a node: resolving its name, connecting, saying hello.
#![allow(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::time::Duration;

use bucksaw_record::Labels;
use bucksaw_wire::{DecodeProgress, Hello, HelloReply, RefusalCode, ServerMessage, Version, WireError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::ConnectionError;

/// How long a node may take to be found and to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A node that takes batches.
#[derive(Debug)]
pub(crate) struct NodeConnection {
    pub(crate) socket: TcpStream,
    pub(crate) frame_bytes_max: u32,
}

pub(crate) async fn connect(address: &str, labels: &Labels) -> Result<NodeConnection, ConnectionError> {
    let answered = async {
        let mut socket = TcpStream::connect(address).await.map_err(ConnectionError::Connect)?;
        socket.set_nodelay(true)?;
        let hello = Hello { version: Version::NEWEST, labels: labels.clone() };
        socket.write_all(&hello.encode()).await?;
        match read_message(&mut socket, HelloReply::decode).await? {
            HelloReply::Welcome { frame_bytes_max, .. } => Ok(NodeConnection { socket, frame_bytes_max }),
            HelloReply::Refused { code: RefusalCode::BUSY, text } => {
                match read_message(&mut socket, ServerMessage::decode).await {
                    Ok(ServerMessage::Redirect(elsewhere)) => {
                        Err(ConnectionError::Busy(elsewhere.addresses().to_vec()))
                    }
                    // A node that has nobody to name, or only said so much.
                    _ => Err(ConnectionError::Refused(text)),
                }
            }
            HelloReply::Refused { text, .. } => Err(ConnectionError::Refused(text)),
        }
    };
    timeout(CONNECT_TIMEOUT, answered).await.map_err(|_| ConnectionError::ConnectTimeout(CONNECT_TIMEOUT))?
}

/// Reads one message and not a byte more.
pub(crate) async fn read_message<T>(
    socket: &mut (impl AsyncReadExt + Unpin),
    decode: impl Fn(&[u8]) -> Result<DecodeProgress<T>, WireError>,
) -> Result<T, ConnectionError> {
    let mut bytes = Vec::new();
    loop {
        let missing = match decode(&bytes)? {
            DecodeProgress::Complete(message, _) => return Ok(message),
            DecodeProgress::Incomplete(missing) => missing,
        };
        // Messages of a node are short, which the decoders see to.
        let had = bytes.len();
        bytes.resize(had + missing, 0);
        let room = bytes.get_mut(had..).unwrap_or_default();
        let count = socket.read(room).await?;
        bytes.truncate(had + count);
        if count == 0 {
            return Err(ConnectionError::Closed);
        }
    }
}
