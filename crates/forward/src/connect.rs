//! Connects to a node and exchanges the hello.
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::time::Duration;

use bucksaw_auth::SecretText;
use bucksaw_record::Labels;
use bucksaw_tls::ClientTls;
use bucksaw_wire::{
    ClientToken, DecodeProgress, Hello, HelloReply, RefusalCode, ServerMessage, WireError, WireVersion,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::ConnectionError;
use crate::node_stream::NodeStream;

/// The time limit from name resolution to the hello reply.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to a node that accepts batches.
#[derive(Debug)]
pub(crate) struct NodeConnection {
    pub(crate) socket: NodeStream,
    pub(crate) frame_bytes_max: u32,
    pub(crate) version: WireVersion,
}

/// Connects to a node, by TLS if there are settings for it, and presents the token if there is one.
pub(crate) async fn connect(
    address: &str,
    labels: &Labels,
    (tls, token): (Option<&ClientTls>, Option<&SecretText>),
) -> Result<NodeConnection, ConnectionError> {
    let reply = async {
        let mut socket = open(address, tls).await?;
        let hello = Hello { version: WireVersion::NEWEST, labels: labels.clone() };
        socket.write_all(&hello.encode()).await?;
        socket.flush().await?;
        let (code, text) = match read_message(&mut socket, HelloReply::decode).await? {
            HelloReply::Welcome { frame_bytes_max, version } => {
                // A node of an older version cannot ask for a token.
                if let Some(token) = token.filter(|_| version >= WireVersion::TOKENS) {
                    present(&mut socket, token).await?;
                }
                return Ok(NodeConnection { socket, frame_bytes_max, version });
            }
            HelloReply::Refused { code, text } => (code, text),
        };
        if code == RefusalCode::BUSY
            && let Ok(ServerMessage::Redirect(redirect)) = read_message(&mut socket, ServerMessage::decode).await
        {
            return Err(ConnectionError::Busy(redirect.addresses().to_vec()));
        }
        Err(ConnectionError::Refused(text))
    };
    timeout(CONNECT_TIMEOUT, reply).await.map_err(|_| ConnectionError::ConnectTimeout(CONNECT_TIMEOUT))?
}

/// Presents the token, and waits until the node has recognised it.
async fn present(socket: &mut NodeStream, token: &SecretText) -> Result<(), ConnectionError> {
    socket.write_all(&ClientToken(token.expose().to_owned()).encode()).await?;
    loop {
        match read_message(socket, ServerMessage::decode).await? {
            ServerMessage::Acked(_) => return Ok(()),
            ServerMessage::Failed { text, .. } => return Err(ConnectionError::Refused(text)),
            // The node suggests others to every client, also while it checks the token. It will do so again.
            ServerMessage::Redirect(_) => {}
        }
    }
}

async fn open(address: &str, tls: Option<&ClientTls>) -> Result<NodeStream, ConnectionError> {
    let socket = TcpStream::connect(address).await.map_err(ConnectionError::Connect)?;
    socket.set_nodelay(true)?;
    let Some(tls) = tls else { return Ok(NodeStream::Plain(socket)) };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    Ok(NodeStream::Tls(Box::new(tls.connect(host, socket).await?)))
}

/// Reads one message and no byte of the next.
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
        // The decoders limit the length of a message.
        let length = bytes.len();
        bytes.resize(length + missing, 0);
        let count = socket.read(bytes.get_mut(length..).unwrap_or_default()).await?;
        bytes.truncate(length + count);
        if count == 0 {
            return Err(ConnectionError::Closed);
        }
    }
}
