//! Reaching a node: resolving its name, connecting, saying hello.

use std::time::Duration;

use bucksaw_record::Labels;
use bucksaw_wire::{Answer, Code, Hello, Step, Told, Version, WireError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::Lost;

/// How long a node may take to be found and to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A node that takes batches.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) socket: TcpStream,
    pub(crate) frame_bytes_max: u32,
}

pub(crate) async fn connect(address: &str, labels: &Labels) -> Result<Connected, Lost> {
    let answered = async {
        let mut socket = TcpStream::connect(address).await.map_err(Lost::Connect)?;
        socket.set_nodelay(true)?;
        let hello = Hello { version: Version::NEWEST, labels: labels.clone() };
        socket.write_all(&hello.encode()).await?;
        match read(&mut socket, Answer::decode).await? {
            Answer::Welcome { frame_bytes_max, .. } => Ok(Connected { socket, frame_bytes_max }),
            Answer::Refused { code: Code::BUSY, text } => match read(&mut socket, Told::decode).await {
                Ok(Told::Elsewhere(elsewhere)) => Err(Lost::Busy(elsewhere.addresses().to_vec())),
                // A node that has nobody to name, or only said so much.
                _ => Err(Lost::Refused(text)),
            },
            Answer::Refused { text, .. } => Err(Lost::Refused(text)),
        }
    };
    timeout(ANSWER_MAX, answered).await.map_err(|_| Lost::NoAnswer(ANSWER_MAX))?
}

/// Reads one message and not a byte more.
pub(crate) async fn read<T>(
    socket: &mut (impl AsyncReadExt + Unpin),
    decode: impl Fn(&[u8]) -> Result<Step<T>, WireError>,
) -> Result<T, Lost> {
    let mut bytes = Vec::new();
    loop {
        let missing = match decode(&bytes)? {
            Step::Whole(message, _) => return Ok(message),
            Step::Need(missing) => missing,
        };
        // Messages of a node are short, which the decoders see to.
        let had = bytes.len();
        bytes.resize(had + missing, 0);
        let room = bytes.get_mut(had..).unwrap_or_default();
        let count = socket.read(room).await?;
        bytes.truncate(had + count);
        if count == 0 {
            return Err(Lost::Closed);
        }
    }
}
