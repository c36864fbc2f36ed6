//! JSON messages, alone or in front of a body of bytes.
//!
//! ```text
//!   offset  size  field
//!        0     4  length   bytes of the message, little-endian, at most MESSAGE_BYTES_MAX
//!        4     …  message  JSON
//!        …     …  bytes    as the message describes them
//! ```
//! A message that is a whole body has no length in front.

use std::io;

use bucksaw_env::Body;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Encodes a message for the front of a body.
///
/// # Errors
/// `InvalidData` if it is longer than [`MESSAGE_BYTES_MAX`].
pub fn encode_head(message: &impl Serialize) -> io::Result<Bytes> {
    let text = serde_json::to_vec(message)?;
    if text.len() > MESSAGE_BYTES_MAX {
        return Err(too_large());
    }
    Ok([&(text.len() as u32).to_le_bytes()[..], &text].concat().into())
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the message is too large")
}

/// A body whose message was read.
#[derive(Debug)]
pub struct BodyRemainder {
    body: Body,
    /// Bytes behind the message that arrived in the same piece.
    buffered: Bytes,
}

/// Reads the message in front of a body.
///
/// # Errors
/// `InvalidData`, `UnexpectedEof`, or the error of the body.
pub async fn read_head<T: DeserializeOwned>(body: Body) -> io::Result<(T, BodyRemainder)> {
    let mut rest = BodyRemainder { body, buffered: Bytes::new() };
    let length = rest.read_exact(4).await?;
    let length = length.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(too_large());
    }
    let text = rest.read_exact(length).await?;
    Ok((serde_json::from_slice(&text)?, rest))
}

/// Reads a body that is one message of at most [`MESSAGE_BYTES_MAX`] bytes.
///
/// # Errors
/// `InvalidData`, `FileTooLarge`, or the error of the body.
pub async fn read_message<T: DeserializeOwned>(body: Body) -> io::Result<T> {
    Ok(serde_json::from_slice(&body.read_all(MESSAGE_BYTES_MAX).await?)?)
}

/// A body that is one message.
///
/// # Errors
/// `InvalidData` if the message has no JSON form.
pub fn message_body(message: &impl Serialize) -> io::Result<Body> {
    Ok(Body::whole(serde_json::to_vec(message)?))
}

impl BodyRemainder {
    /// The next bytes, at most `bytes_max`; `None` at the end.
    ///
    /// # Errors
    /// The error of the body.
    pub async fn next_chunk(&mut self, bytes_max: u64) -> io::Result<Option<Bytes>> {
        while self.buffered.is_empty() {
            match self.body.next().await {
                Some(piece) => self.buffered = piece?,
                None => return Ok(None),
            }
        }
        let count = usize::try_from(bytes_max).unwrap_or(usize::MAX).min(self.buffered.len());
        Ok(Some(self.buffered.split_to(count)))
    }

    async fn read_exact(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count);
        while bytes.len() < count {
            match self.next_chunk((count - bytes.len()) as u64).await? {
                Some(some) => bytes.extend_from_slice(&some),
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn expect_ready<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("the future is pending"),
        }
    }

    #[test]
    fn a_head_is_separated_from_the_bytes_behind_it() {
        let body = [&encode_head(&[1, 2]).unwrap()[..], b"rest"].concat();
        let (head, mut rest) = expect_ready(read_head::<Vec<u32>>(Body::whole(body.clone()))).unwrap();
        assert_eq!(head, [1, 2]);
        assert_eq!(expect_ready(rest.next_chunk(3)).unwrap().unwrap(), "res");
        assert_eq!(expect_ready(rest.next_chunk(3)).unwrap().unwrap(), "t");
        assert_eq!(expect_ready(rest.next_chunk(3)).unwrap(), None);
        for end in 0..8 {
            let truncated = Body::whole(body[..end].to_vec());
            let error = expect_ready(read_head::<Vec<u32>>(truncated)).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn messages_beyond_the_limit_are_neither_written_nor_read() {
        let long = "x".repeat(MESSAGE_BYTES_MAX);
        assert_eq!(encode_head(&long).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let length = (MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes().to_vec();
        let error = expect_ready(read_head::<String>(Body::whole(length))).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(expect_ready(read_message::<String>(message_body(&long).unwrap())).is_err());
        assert_eq!(expect_ready(read_message::<String>(message_body(&"short").unwrap())).unwrap(), "short");
    }
}
