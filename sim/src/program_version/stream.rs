//! Adds unknown fields and messages to the bodies of calls.

use std::io;
use std::sync::Arc;

use bucksaw_env::{Body, BodyWriter, Tasks};
use bucksaw_fixtures::with_unknown_fields;
use bucksaw_rpc::{BodyRemainder, encode_head, read_head};
use bytes::{Buf as _, Bytes, BytesMut};
use serde_json::Value;

/// More than the length of any message in a simulation.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Bytes before the content of a message of a reply: kind, length, checksum.
const HEADER_BYTES: usize = 9;

/// Kinds of messages with JSON content, and an unknown kind.
const JSON_KINDS: [u8; 3] = [1, 2, 5];
const UNKNOWN: u8 = 200;

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallBodyFormat {
    /// One message.
    Json,
    /// A message after its length, then other bytes.
    WithHead,
    /// The messages of a reply.
    Messages,
}

/// The same body with additions.
pub(super) async fn extend(format: CallBodyFormat, body: Body, tasks: &Arc<dyn Tasks>, seed: u64) -> io::Result<Body> {
    match format {
        CallBodyFormat::Json => {
            let bytes = body.read_all(MESSAGE_BYTES_MAX).await?;
            Ok(Body::whole(with_unknown_fields(&bytes, seed).unwrap_or(bytes)))
        }
        CallBodyFormat::WithHead => {
            let (message, rest) = read_head::<Value>(body).await?;
            let extended = with_unknown_fields(&serde_json::to_vec(&message)?, seed).unwrap_or_default();
            let first = encode_head(&serde_json::from_slice::<Value>(&extended)?)?;
            let (writer, body) = Body::channel();
            tasks.spawn(Box::pin(forward_rest(writer, first, rest)));
            Ok(body)
        }
        CallBodyFormat::Messages => {
            let (writer, extended) = Body::channel();
            tasks.spawn(Box::pin(forward_messages(writer, body, seed)));
            Ok(extended)
        }
    }
}

/// Forwards the head and the bytes after it.
async fn forward_rest(writer: BodyWriter, first: Bytes, mut rest: BodyRemainder) {
    if writer.send(first).await.is_err() {
        return;
    }
    loop {
        let piece = tokio::select! {
            biased;
            () = writer.closed() => return,
            piece = rest.next_chunk(u64::MAX) => piece,
        };
        match piece {
            Ok(Some(piece)) => {
                if writer.send(piece).await.is_err() {
                    return;
                }
            }
            Ok(None) => {
                // The reader may have been dropped.
                let _ = writer.end().await;
                return;
            }
            Err(error) => return writer.fail(error).await,
        }
    }
}

/// Forwards messages with unknown fields, and inserts unknown ones.
async fn forward_messages(writer: BodyWriter, mut body: Body, mut seed: u64) {
    let mut received = BytesMut::new();
    loop {
        while let Some((kind, content)) = take_message(&mut received) {
            seed = seed.wrapping_add(1);
            let content = if JSON_KINDS.contains(&kind) {
                with_unknown_fields(&content, seed).unwrap_or_default().into()
            } else {
                content
            };
            let unknown = message(UNKNOWN, b"of a later version");
            for piece in [unknown, message(kind, &content)] {
                if writer.send(piece).await.is_err() {
                    return;
                }
            }
        }
        let piece = tokio::select! {
            biased;
            () = writer.closed() => return,
            piece = body.next() => piece,
        };
        match piece {
            Some(Ok(piece)) => received.extend_from_slice(&piece),
            Some(Err(error)) => return writer.fail(error).await,
            None => {
                let _ = writer.end().await;
                return;
            }
        }
    }
}

/// The next whole message of the received bytes.
fn take_message(received: &mut BytesMut) -> Option<(u8, Bytes)> {
    let [kind, a, b, c, d, ..] = *received.first_chunk::<HEADER_BYTES>()?;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if received.len() < HEADER_BYTES + length {
        return None;
    }
    received.advance(HEADER_BYTES);
    Some((kind, received.split_to(length).freeze()))
}

fn message(kind: u8, content: &[u8]) -> Bytes {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), content);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(content);
    bytes.into()
}
