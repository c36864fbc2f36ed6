//! The message of a unary call as it arrives.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::time::Duration;

use axum::body::Body;
use bucksaw_sources::http::BodyChunks;
use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;

use super::status::{GrpcCode, GrpcError};

/// Bytes of the flag and the length before a message.
pub(super) const PREFIX_BYTES: usize = 5;

/// The one message of a call, whose prefix was read.
pub(crate) struct MessageBody {
    /// Whether the message is compressed, by the algorithm in `grpc-encoding`.
    pub(crate) is_compressed: bool,
    /// Its length as it is sent, in bytes.
    pub(crate) length: u32,
    /// Bytes of the message that were not returned yet.
    left: usize,
    /// Bytes that arrived with the prefix.
    rest: Bytes,
    body: Body,
}

impl MessageBody {
    /// Reads the prefix within `time_max`. Allocates nothing for the message.
    pub(crate) async fn open(mut body: Body, time_max: Duration) -> Result<Self, GrpcError> {
        let mut prefix = BytesMut::new();
        let collected = async {
            while prefix.len() < PREFIX_BYTES {
                match next_data(&mut body).await {
                    Some(Ok(data)) if prefix.is_empty() && data.len() >= PREFIX_BYTES => return Ok(data),
                    Some(Ok(data)) => prefix.extend_from_slice(&data),
                    Some(Err(error)) => return Err(format!("the call ended early: {error}")),
                    None if prefix.is_empty() => return Err("the call has no message".to_owned()),
                    None => return Err("the call ended within the prefix of its message".to_owned()),
                }
            }
            Ok(std::mem::take(&mut prefix).freeze())
        };
        let collected = tokio::time::timeout(time_max, collected).await;
        let collected = collected
            .map_err(|_| GrpcError::new(GrpcCode::DEADLINE_EXCEEDED, "timed out while waiting for the message"))?;
        let mut rest = collected.map_err(|error| GrpcError::new(GrpcCode::INVALID_ARGUMENT, error))?;
        let (flag, length) = (rest.get_u8(), rest.get_u32());
        if flag > 1 {
            let message = format!("not a message of gRPC: its first byte is {flag}, not 0 or 1");
            return Err(GrpcError::new(GrpcCode::INVALID_ARGUMENT, message));
        }
        let left = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(Self { is_compressed: flag == 1, length, left, rest, body })
    }
}

impl BodyChunks for MessageBody {
    async fn next_chunk(&mut self) -> Option<Result<Bytes, String>> {
        let mut data = std::mem::take(&mut self.rest);
        if data.is_empty() {
            data = match next_data(&mut self.body).await {
                Some(Ok(data)) => data,
                Some(Err(error)) => return Some(Err(error)),
                None if self.left == 0 => return None,
                None => return Some(Err(format!("{} of {} bytes are missing", self.left, self.length))),
            };
        }
        let Some(left) = self.left.checked_sub(data.len()) else {
            return Some(Err(format!("more than the {} bytes of one message arrived", self.length)));
        };
        self.left = left;
        Some(Ok(data))
    }
}

/// The next bytes of a body, which are not empty.
pub(super) async fn next_data(body: &mut Body) -> Option<Result<Bytes, String>> {
    loop {
        match body.frame().await? {
            Ok(frame) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Some(Ok(data)),
                _ => {}
            },
            Err(error) => return Some(Err(error.to_string())),
        }
    }
}
