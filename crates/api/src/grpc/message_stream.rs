//! The messages of a call with many of them, one after the other.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::time::Duration;

use axum::body::Body;
use bucksaw_sources::http::BodyChunks;
use bytes::{Buf as _, Bytes, BytesMut};

use super::message::{PREFIX_BYTES, next_data};
use super::status::{GrpcCode, GrpcError};

/// The messages of a client, as they arrive. Nothing is read ahead but one frame of HTTP/2.
pub(crate) struct MessageStream {
    body: Body,
    /// Bytes that have arrived behind what was returned.
    rest: Bytes,
}

/// One message, whose prefix was read.
pub(crate) struct StreamedMessage<'a> {
    stream: &'a mut MessageStream,
    /// Whether it is compressed, by the algorithm in `grpc-encoding`.
    pub(crate) is_compressed: bool,
    /// Its length as it is sent, in bytes.
    pub(crate) length: u32,
    /// Bytes of it that were not returned yet.
    left: usize,
}

impl MessageStream {
    pub(crate) fn new(body: Body) -> Self {
        Self { body, rest: Bytes::new() }
    }

    /// The next message, whenever it begins; `None` at the end. The message before must have been read to its end.
    pub(crate) async fn next(&mut self) -> Result<Option<StreamedMessage<'_>>, GrpcError> {
        let mut prefix = BytesMut::new();
        while prefix.len() < PREFIX_BYTES {
            let mut data = match self.next_bytes().await {
                Some(Ok(data)) => data,
                Some(Err(error)) => return Err(ended_early(&error)),
                None if prefix.is_empty() => return Ok(None),
                None => return Err(ended_early("within the prefix of a message")),
            };
            prefix.extend_from_slice(&data.split_to(data.len().min(PREFIX_BYTES - prefix.len())));
            self.rest = data;
        }
        let mut prefix = prefix.freeze();
        let (flag, length) = (prefix.get_u8(), prefix.get_u32());
        if flag > 1 {
            let message = format!("not a message of gRPC: its first byte is {flag}, not 0 or 1");
            return Err(GrpcError::new(GrpcCode::INVALID_ARGUMENT, message));
        }
        let left = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(Some(StreamedMessage { stream: self, is_compressed: flag == 1, length, left }))
    }

    /// The next bytes, which are not empty.
    async fn next_bytes(&mut self) -> Option<Result<Bytes, String>> {
        if self.rest.is_empty() { next_data(&mut self.body).await } else { Some(Ok(std::mem::take(&mut self.rest))) }
    }
}

impl StreamedMessage<'_> {
    /// Reads to the end of the message, without a pause longer than `idle_max`, and drops what is read.
    pub(crate) async fn skip(mut self, idle_max: Duration) -> Result<(), GrpcError> {
        loop {
            let mut message = &mut self;
            match tokio::time::timeout(idle_max, message.next_chunk()).await {
                Ok(Some(Ok(_))) => {}
                Ok(None) => return Ok(()),
                Ok(Some(Err(error))) => return Err(ended_early(&error)),
                Err(_) => {
                    let message = "timed out while reading a message";
                    return Err(GrpcError::new(GrpcCode::DEADLINE_EXCEEDED, message));
                }
            }
        }
    }
}

impl BodyChunks for &mut StreamedMessage<'_> {
    async fn next_chunk(&mut self) -> Option<Result<Bytes, String>> {
        if self.left == 0 {
            return None;
        }
        let mut data = match self.stream.next_bytes().await {
            Some(Ok(data)) => data,
            Some(Err(error)) => return Some(Err(error)),
            None => return Some(Err(format!("{} of {} bytes are missing", self.left, self.length))),
        };
        let chunk = data.split_to(data.len().min(self.left));
        self.left -= chunk.len();
        self.stream.rest = data;
        Some(Ok(chunk))
    }
}

fn ended_early(error: &str) -> GrpcError {
    GrpcError::new(GrpcCode::INVALID_ARGUMENT, format!("the call ended early: {error}"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use proptest::prelude::*;

    use super::*;

    /// All messages of a body that arrives in chunks of this size, or how it fails.
    async fn all(bytes: Vec<u8>, chunk: usize) -> Result<Vec<Vec<u8>>, GrpcError> {
        let chunks: Vec<_> = bytes.chunks(chunk).map(|chunk| Ok::<_, Infallible>(chunk.to_vec())).collect();
        let mut messages = MessageStream::new(Body::from_stream(stream::iter(chunks)));
        let mut all = Vec::new();
        while let Some(mut message) = messages.next().await? {
            let mut text = Vec::new();
            while let Some(chunk) = (&mut message).next_chunk().await {
                text.extend_from_slice(&chunk.map_err(|error| ended_early(&error))?);
            }
            all.push(text);
        }
        Ok(all)
    }

    proptest! {
        #[test]
        fn messages_are_those_that_were_framed(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..6),
            chunk in 1_usize..12,
            cut in 0_usize..8,
        ) {
            let mut bytes = Vec::new();
            for message in &messages {
                bytes.push(0);
                bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
                bytes.extend_from_slice(message);
            }
            let cut = cut.min(bytes.len());
            bytes.truncate(bytes.len() - cut);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let got = runtime.block_on(all(bytes, chunk));
            match got {
                Ok(got) if cut == 0 => prop_assert_eq!(got, messages),
                // A cut at a border of messages leaves fewer of them.
                Ok(got) => prop_assert!(got.len() < messages.len() && messages.starts_with(&got)),
                Err(error) => prop_assert!(cut > 0 && error.message.contains("ended early"), "{:?}", error),
            }
        }
    }
}
