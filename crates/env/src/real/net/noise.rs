//! Encrypted connections: `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`.
//!
//! Both nodes create a key pair per connection, so a recorded connection stays confidential if the secret leaks later, and cannot
//! be replayed. After the two messages of the handshake come frames:
//!
//! ```text
//! offset  size  field
//!      0     2  bytes    of the message, 17..=32766, little-endian
//!      2     n  message  a Noise message: content and 16 bytes of tag
//! ```
//! Noise numbers its messages, so none can be dropped, duplicated or reordered. Truncation between two frames is not detected
//! here; HTTP states lengths.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use snow::{Builder, HandshakeState, TransportState};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Secret;
use super::hello;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
const LENGTH_BYTES: usize = 2;

/// The first message of the handshake, from the calling node: a public key and a tag.
pub(super) const INITIATOR_MESSAGE_BYTES: usize = KEY_BYTES + TAG_BYTES;

/// The second, from the called node: a public key, the reply again, so that it cannot be changed in transit, and a tag.
pub(super) const RESPONDER_MESSAGE_BYTES: usize = KEY_BYTES + hello::BYTES + TAG_BYTES;

/// Maximum bytes of a frame with its length. Noise permits twice as many, but each connection has three buffers of this size.
const FRAME_BYTES_MAX: usize = 32 << 10;
const NOISE_MESSAGE_BYTES_MAX: usize = FRAME_BYTES_MAX - LENGTH_BYTES;
const CONTENT_BYTES_MAX: usize = NOISE_MESSAGE_BYTES_MAX - TAG_BYTES;

const _: () = assert!(NOISE_MESSAGE_BYTES_MAX <= 65_535, "the limit of Noise");

/// A handshake after its first message.
pub(super) struct Handshake(HandshakeState);

impl Handshake {
    /// Begins as the calling node, which has sent `hello`; returns the first message.
    pub(super) fn initiate(secret: &Secret, hello: &[u8]) -> io::Result<(Self, [u8; INITIATOR_MESSAGE_BYTES])> {
        let mut state = builder(secret, hello).and_then(Builder::build_initiator).map_err(noise_error)?;
        let mut message = [0; INITIATOR_MESSAGE_BYTES];
        state.write_message(&[], &mut message).map_err(noise_error)?;
        Ok((Self(state), message))
    }

    /// Begins as the called node; `None` if the first message was made with another secret.
    pub(super) fn respond(
        secret: &Secret,
        hello: &[u8],
        message: &[u8; INITIATOR_MESSAGE_BYTES],
    ) -> io::Result<Option<Self>> {
        let mut state = builder(secret, hello).and_then(Builder::build_responder).map_err(noise_error)?;
        Ok(state.read_message(message, &mut []).is_ok().then_some(Self(state)))
    }

    /// Ends the handshake of the called node; returns the second message.
    pub(super) fn finish_as_responder(
        mut self,
        reply: &[u8; hello::BYTES],
    ) -> io::Result<(TransportState, [u8; RESPONDER_MESSAGE_BYTES])> {
        let mut message = [0; RESPONDER_MESSAGE_BYTES];
        self.0.write_message(reply, &mut message).map_err(noise_error)?;
        Ok((self.0.into_transport_mode().map_err(noise_error)?, message))
    }

    /// Ends the handshake of the calling node; `None` if the second message was made with another secret, or the reply was
    /// changed in transit.
    pub(super) fn finish_as_initiator(
        mut self,
        reply: &[u8; hello::BYTES],
        message: &[u8; RESPONDER_MESSAGE_BYTES],
    ) -> io::Result<Option<TransportState>> {
        let mut repeated = [0; hello::BYTES];
        if self.0.read_message(message, &mut repeated).is_err() || repeated != *reply {
            return Ok(None);
        }
        self.0.into_transport_mode().map(Some).map_err(noise_error)
    }
}

fn builder<'a>(secret: &'a Secret, hello: &'a [u8]) -> Result<Builder<'a>, snow::Error> {
    Builder::new(PATTERN.parse()?).psk(0, &secret.stream_key)?.prologue(hello)
}

fn noise_error(error: snow::Error) -> io::Error {
    io::Error::other(format!("encryption failed: {error}"))
}

/// An encrypted connection.
#[derive(Debug)]
pub(super) struct NoiseStream<S> {
    stream: S,
    noise: TransportState,
    /// Received bytes that are not decrypted yet: at most one frame; the first `frame_filled` bytes are valid.
    frame: Vec<u8>,
    frame_filled: usize,
    /// Decrypted; `plaintext_read..plaintext_end` is unread.
    plaintext: Vec<u8>,
    plaintext_read: usize,
    plaintext_end: usize,
    /// Encrypted; `ciphertext_sent..` is unsent.
    ciphertext: Vec<u8>,
    ciphertext_sent: usize,
}

impl<S> NoiseStream<S> {
    pub(super) fn new(stream: S, noise: TransportState) -> Self {
        Self {
            stream,
            noise,
            frame: Vec::new(),
            frame_filled: 0,
            plaintext: Vec::new(),
            plaintext_read: 0,
            plaintext_end: 0,
            ciphertext: Vec::new(),
            ciphertext_sent: 0,
        }
    }

    /// The length of the frame being received, if its length bytes have arrived.
    fn frame_bytes(&self) -> io::Result<Option<usize>> {
        let received = self.frame.get(..self.frame_filled).unwrap_or_default();
        let Some((length, _)) = received.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let bytes = usize::from(u16::from_le_bytes(*length));
        // Content is never empty.
        if !(TAG_BYTES + 1..=NOISE_MESSAGE_BYTES_MAX).contains(&bytes) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an encrypted frame has an invalid length"));
        }
        Ok(Some(LENGTH_BYTES + bytes))
    }

    /// Decrypts the frame if it is complete.
    fn decrypt_frame(&mut self) -> io::Result<bool> {
        let Some(bytes) = self.frame_bytes()?.filter(|bytes| *bytes <= self.frame_filled) else { return Ok(false) };
        let message = self.frame.get(LENGTH_BYTES..bytes).unwrap_or_default();
        self.plaintext.resize(CONTENT_BYTES_MAX, 0);
        self.plaintext_end = self.noise.read_message(message, &mut self.plaintext).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "an encrypted frame cannot be decrypted: it was modified in transit",
            )
        })?;
        self.plaintext_read = 0;
        self.frame.copy_within(bytes..self.frame_filled, 0);
        self.frame_filled -= bytes;
        Ok(true)
    }

    /// Encrypts the beginning of `content`, up to one frame; returns its length.
    fn encrypt_frame(&mut self, content: &[u8]) -> io::Result<usize> {
        let content = content.get(..CONTENT_BYTES_MAX).unwrap_or(content);
        let bytes = content.len() + TAG_BYTES;
        self.ciphertext.resize(LENGTH_BYTES + bytes, 0);
        let Some((head, message)) = self.ciphertext.split_first_chunk_mut::<LENGTH_BYTES>() else { return Ok(0) };
        *head = u16::try_from(bytes).map_err(io::Error::other)?.to_le_bytes();
        self.noise.write_message(content, message).map_err(noise_error)?;
        self.ciphertext_sent = 0;
        Ok(content.len())
    }
}

impl<S: AsyncWrite + Unpin> NoiseStream<S> {
    /// Sends the ciphertext.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.ciphertext.get(self.ciphertext_sent..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.ciphertext_sent += sent,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> NoiseStream<S> {
    /// Resolves when the first frame is decrypted, which a peer that replays another's handshake cannot encrypt.
    pub(super) async fn confirm_peer(&mut self) -> io::Result<()> {
        match std::future::poll_fn(|context| self.poll_decrypt(context)).await? {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Whether plaintext is available; `false` at the end.
    fn poll_decrypt(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        while self.plaintext_read == self.plaintext_end && !self.decrypt_frame()? {
            self.frame.resize(FRAME_BYTES_MAX, 0);
            let mut free = ReadBuf::new(self.frame.get_mut(self.frame_filled..).unwrap_or_default());
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut free))?;
            match free.filled().len() {
                0 if self.frame_filled == 0 => return Poll::Ready(Ok(false)),
                0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                received => self.frame_filled += received,
            }
        }
        Poll::Ready(Ok(true))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for NoiseStream<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if ready!(this.poll_decrypt(context))? {
            let rest = this.plaintext.get(this.plaintext_read..this.plaintext_end).unwrap_or_default();
            let part = rest.get(..into.remaining()).unwrap_or(rest);
            into.put_slice(part);
            this.plaintext_read += part.len();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for NoiseStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, content: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send(context))?;
        if content.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let encrypted = this.encrypt_frame(content)?;
        // Unsent bytes are sent by the next write or flush.
        if let Poll::Ready(Err(error)) = this.poll_send(context) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(encrypted))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}

/// Parses `data` as messages of the handshake and as frames, for fuzzing.
pub(super) fn fuzz_input(secret: &Secret, data: &[u8]) {
    if let Some((message, _)) = data.split_first_chunk() {
        let _ = Handshake::respond(secret, b"", message);
    }
    let Ok((initiator, message)) = Handshake::initiate(secret, b"") else { return };
    if let Some((message, _)) = data.split_first_chunk() {
        let _ = initiator.finish_as_initiator(b"reply.", message);
    }
    let Ok(Some(responder)) = Handshake::respond(secret, b"", &message) else { return };
    let Ok((noise, _)) = responder.finish_as_responder(b"reply.") else { return };
    let mut stream = NoiseStream::new(data, noise);
    let (mut buffer, mut context) = ([0; 100], Context::from_waker(std::task::Waker::noop()));
    loop {
        let mut into = ReadBuf::new(&mut buffer);
        match Pin::new(&mut stream).poll_read(&mut context, &mut into) {
            Poll::Ready(Ok(())) if !into.filled().is_empty() => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const REPLY: [u8; hello::BYTES] = *b"reply.";

    fn secret(text: &str) -> Secret {
        Secret::new(text.as_bytes()).unwrap()
    }

    fn pair() -> (TransportState, TransportState) {
        let secret = secret("0123456789abcdef");
        let (initiator, message) = Handshake::initiate(&secret, b"hello").unwrap();
        let responder = Handshake::respond(&secret, b"hello", &message).unwrap().unwrap();
        let (responder, message) = responder.finish_as_responder(&REPLY).unwrap();
        (initiator.finish_as_initiator(&REPLY, &message).unwrap().unwrap(), responder)
    }

    #[test]
    fn the_handshake_needs_the_same_secret_and_hello() {
        let (ours, other) = (secret("0123456789abcdef"), secret("another secret.."));
        let (_, message) = Handshake::initiate(&ours, b"hello").unwrap();
        assert!(Handshake::respond(&other, b"hello", &message).unwrap().is_none());
        assert!(Handshake::respond(&ours, b"hullo", &message).unwrap().is_none());
        assert!(Handshake::respond(&ours, b"hello", &[0; INITIATOR_MESSAGE_BYTES]).unwrap().is_none());

        let handshake = || {
            let (initiator, message) = Handshake::initiate(&ours, b"hello").unwrap();
            let (_, message) =
                Handshake::respond(&ours, b"hello", &message).unwrap().unwrap().finish_as_responder(&REPLY).unwrap();
            (initiator, message)
        };
        let (initiator, message) = handshake();
        assert!(initiator.finish_as_initiator(&REPLY, &message).unwrap().is_some());
        let (initiator, message) = handshake();
        assert!(initiator.finish_as_initiator(b"rebly.", &message).unwrap().is_none());
        let (initiator, _) = handshake();
        let (_, other_message) = handshake();
        assert!(initiator.finish_as_initiator(&REPLY, &other_message).unwrap().is_none());
    }

    #[tokio::test]
    async fn a_stream_round_trips() {
        let (initiator, responder) = pair();
        let (near, far) = tokio::io::duplex(1_000);
        let (mut near, mut far) = (NoiseStream::new(near, initiator), NoiseStream::new(far, responder));
        let sent: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let write = async {
            near.write_all(&sent).await.unwrap();
            near.shutdown().await.unwrap();
        };
        let mut read = Vec::new();
        tokio::join!(write, async { far.read_to_end(&mut read).await.unwrap() });
        assert!(read == sent);
        far.write_all(b"back").await.unwrap();
        far.flush().await.unwrap();
        let mut back = [0; 4];
        near.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"back");
    }

    #[tokio::test]
    async fn invalid_lengths_and_truncated_frames_are_errors() {
        for (bytes, kind) in [
            (&[0, 0, 1, 2, 3][..], io::ErrorKind::InvalidData),
            (&[16, 0], io::ErrorKind::InvalidData),
            (&[255, 255], io::ErrorKind::InvalidData),
            (&[17], io::ErrorKind::UnexpectedEof),
            (&[17, 0], io::ErrorKind::UnexpectedEof),
            (&[17, 0, 1, 2, 3], io::ErrorKind::UnexpectedEof),
            (&[&[17, 0][..], &[9; 17]].concat(), io::ErrorKind::InvalidData),
        ] {
            let mut stream = NoiseStream::new(bytes, pair().1);
            let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{bytes:?}");
        }
        assert_eq!(NoiseStream::new(&b""[..], pair().1).read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// After a change, loss or duplication of a byte, a prefix of the content is read, then an error. Truncation between
        /// frames is no error.
        #[test]
        fn modified_bytes_are_rejected(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..400), 1..6),
            at in any::<prop::sample::Index>(),
            how in 0..4,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let (initiator, responder) = pair();
                let mut near = NoiseStream::new(std::io::Cursor::new(Vec::new()), initiator);
                for part in &parts {
                    near.write_all(part).await.unwrap();
                }
                let mut bytes = near.stream.into_inner();
                let at = at.index(bytes.len());
                match how {
                    0 => bytes[at] ^= 1,
                    1 => drop(bytes.remove(at)),
                    2 => bytes.insert(at, bytes[at]),
                    _ => bytes.truncate(at),
                }
                let mut read = Vec::new();
                let result = NoiseStream::new(&bytes[..], responder).read_to_end(&mut read).await;
                let all = parts.concat();
                prop_assert!(all.starts_with(&read));
                // Only a duplicated byte may follow the last frame.
                prop_assert!(read.len() < all.len() || how == 2);
                prop_assert!(result.is_err() || how == 3);
                Ok(())
            })?;
        }
    }
}
