//! An accepted connection, with or without TLS.
//!
//! Its owner reads and writes it through `&self` when it is ready, or as a stream of bytes (`AsyncRead`, `AsyncWrite`), which HTTP
//! needs. Without TLS each call is that of the socket.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bucksaw_env::lock;
use bucksaw_tls::{PeerIdentity, ServerSession};
use bytes::BufMut as _;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::TcpStream;

/// Bytes that a reader of a stream gets at once, at most: as many as fit into one read of HTTP.
const STREAM_BYTES_MAX: usize = 128 << 10;

/// An open connection.
#[derive(Debug)]
pub enum Socket {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS, after the handshake.
    Tls(Box<TlsSocket>),
}

/// A connection with TLS.
#[derive(Debug)]
pub struct TlsSocket {
    tcp: TcpStream,
    /// Locked for one read or write, never over an await. One task owns the connection, so no other waits for the lock.
    session: Mutex<ServerSession>,
    identity: Option<Arc<PeerIdentity>>,
}

/// A socket whose reads and writes return `WouldBlock` instead of waiting.
struct NonBlocking<'a>(&'a TcpStream);

impl Socket {
    /// A connection after its handshake.
    pub(crate) fn encrypted(tcp: TcpStream, session: ServerSession) -> Self {
        let identity = session.peer_identity().map(Arc::new);
        Self::Tls(Box::new(TlsSocket { tcp, session: Mutex::new(session), identity }))
    }

    /// Whether it is encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The names in the certificate of the client, if it gave one.
    pub fn identity(&self) -> Option<&Arc<PeerIdentity>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => tls.identity.as_ref(),
        }
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => &tls.tcp,
        }
    }

    /// Waits until bytes may be readable.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tls(tls) if tls.session().is_ready() => Ok(()),
            _ => self.tcp().readable().await,
        }
    }

    /// Reads without waiting. 0 is the end.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => try_read(tcp, buffer),
            Self::Tls(tls) => tls.try_read(buffer),
        }
    }

    /// Reads up to `bytes_max` bytes to the end of a buffer, without waiting. 0 is the end.
    pub(crate) fn try_read_into(&self, buffer: &mut Vec<u8>, bytes_max: usize) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => {
                buffer.reserve_exact(bytes_max);
                read_until_empty(tcp, bytes_max, || tcp.try_read_buf(&mut buffer.limit(bytes_max)))
            }
            Self::Tls(tls) => {
                let before = buffer.len();
                buffer.resize(before + bytes_max, 0);
                let read = tls.try_read(buffer.get_mut(before..).unwrap_or_default());
                buffer.truncate(before + read.as_ref().map_or(0, |count| *count));
                read
            }
        }
    }

    /// Writes all of the bytes, and sends them.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => {
                while !bytes.is_empty() {
                    tcp.writable().await?;
                    match tcp.try_write(bytes) {
                        Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
            Self::Tls(tls) => loop {
                let written = match bytes {
                    [] => tls.try_flush().map(|()| 0),
                    bytes => tls.try_write(bytes),
                };
                match written {
                    Ok(_) if bytes.is_empty() => return Ok(()),
                    Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => tls.tcp.writable().await?,
                    Err(error) => return Err(error),
                }
            },
        }
    }

    /// Whether the client has closed its side; unread bytes may remain.
    pub(crate) async fn is_hung_up(&self) -> bool {
        let ready = self.tcp().ready(Interest::READABLE);
        // Not a time limit: what is known now.
        let mut ready = std::pin::pin!(ready);
        let ready = std::future::poll_fn(|context| match ready.as_mut().poll(context) {
            Poll::Ready(ready) => Poll::Ready(Some(ready)),
            Poll::Pending => Poll::Ready(None),
        });
        ready.await.is_some_and(|ready| ready.map_or(true, Ready::is_read_closed))
    }

    /// Whether all bytes of a client were read that has closed its side.
    pub(crate) async fn is_at_end(&self) -> bool {
        match self {
            // The end is readable, so `peek` does not wait.
            Self::Plain(tcp) => tcp.peek(&mut [0]).await.is_ok_and(|count| count == 0),
            Self::Tls(tls) => tls.session().is_at_end(&mut NonBlocking(&tls.tcp)),
        }
    }
}

impl TlsSocket {
    fn session(&self) -> std::sync::MutexGuard<'_, ServerSession> {
        lock(&self.session)
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut session = self.session();
        let read = session.read(&mut NonBlocking(&self.tcp), buffer);
        // Alerts and new keys are sent as far as the socket takes them; the next write or flush sends the rest.
        let _ = session.flush(&mut NonBlocking(&self.tcp));
        read
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.session().write(&mut NonBlocking(&self.tcp), bytes)
    }

    fn try_flush(&self) -> io::Result<()> {
        self.session().flush(&mut NonBlocking(&self.tcp))
    }

    /// Repeats `attempt` whenever the socket takes bytes, until it does not return `WouldBlock`.
    fn poll_write_with<T>(
        &self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&Self) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            match attempt(self) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(self.tcp.poll_write_ready(context))?,
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let tls = match self.get_mut() {
            Self::Plain(tcp) => return Pin::new(tcp).poll_read(context, into),
            Self::Tls(tls) => tls,
        };
        loop {
            let buffer = into.initialize_unfilled_to(into.remaining().min(STREAM_BYTES_MAX));
            match tls.try_read(buffer) {
                Ok(count) => {
                    into.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(tls.tcp.poll_read_ready(context))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(context, bytes),
            Self::Tls(tls) => tls.poll_write_with(context, |tls| tls.try_write(bytes)),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write_vectored(context, parts),
            Self::Tls(tls) => {
                let bytes = parts.iter().find(|part| !part.is_empty()).map_or(&[][..], |part| part);
                tls.poll_write_with(context, |tls| tls.try_write(bytes))
            }
        }
    }

    /// Records of TLS need the bytes in one piece.
    fn is_write_vectored(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(context),
            Self::Tls(tls) => tls.poll_write_with(context, TlsSocket::try_flush),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(context),
            Self::Tls(tls) => {
                tls.session().close();
                ready!(tls.poll_write_with(context, TlsSocket::try_flush))?;
                Pin::new(&mut tls.tcp).poll_shutdown(context)
            }
        }
    }
}

impl Read for NonBlocking<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        try_read(self.0, buffer)
    }
}

fn try_read(tcp: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    read_until_empty(tcp, buffer.len(), || tcp.try_read(buffer))
}

/// Reads up to `bytes_max` bytes. A read of fewer has emptied the socket, so the next one needs no call to learn that.
fn read_until_empty(tcp: &TcpStream, bytes_max: usize, read: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
    let mut emptied = None;
    let read = tcp.try_io(Interest::READABLE, || {
        let count = read()?;
        if (1..bytes_max).contains(&count) {
            emptied = Some(count);
            // Makes the runtime wait for more bytes. The end of the stream needs no wait: the runtime keeps it.
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(count)
    });
    emptied.map_or(read, Ok)
}

impl Write for NonBlocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "reads a real socket")]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Whether the socket is known to be readable, without waiting.
    async fn is_readable(socket: &Socket) -> bool {
        let mut readable = std::pin::pin!(socket.readable());
        std::future::poll_fn(|context| Poll::Ready(readable.as_mut().poll(context).is_ready())).await
    }

    #[tokio::test]
    async fn a_socket_that_a_read_has_emptied_is_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let socket = Socket::Plain(listener.accept().await.unwrap().0);
        for text in [&b"first"[..], b"again"] {
            client.write_all(text).await.unwrap();
            socket.readable().await.unwrap();
            let mut read = Vec::new();
            // As many as asked for: there may be more.
            assert_eq!(socket.try_read_into(&mut read, 2).unwrap(), 2);
            assert!(is_readable(&socket).await);
            assert_eq!((socket.try_read_into(&mut read, 10).unwrap(), &read[..]), (3, text));
            assert!(!is_readable(&socket).await);
            assert_eq!(socket.try_read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        client.write_all(b"end").await.unwrap();
        client.shutdown().await.unwrap();
        socket.readable().await.unwrap();
        assert_eq!(socket.try_read(&mut [0; 10]).unwrap(), 3);
        socket.readable().await.unwrap();
        assert_eq!(socket.try_read(&mut [0; 10]).unwrap(), 0);
    }
}
