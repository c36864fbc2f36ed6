//! The TLS half of an accepted connection, driven by a socket that never waits.
//!
//! The socket is any pair of a reader and a writer that return `WouldBlock`. Nothing here waits, so the caller decides by the
//! readiness of the socket when to call again.
//!
//! rustls reads 4 KiB at a time from a socket, which costs a system call each. Large reads therefore go through a buffer of the
//! thread: one system call per 256 KiB, and an idle connection holds no buffer of that size.
#![expect(clippy::indexing_slicing, reason = "slices end at counts that their reader returned")]

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};

use rustls::ServerConnection;

use crate::peer_identity::PeerIdentity;

/// Bytes that are read from the socket at once, at most.
const CHUNK_BYTES: usize = 256 << 10;

/// More than one record of TLS: content of 16 KiB, header, and what encryption adds.
const RECORD_BYTES_MAX: usize = 18 << 10;

/// A smaller buffer of the caller is filled record by record.
const LARGE_BYTES_MIN: usize = 3 * RECORD_BYTES_MAX;

thread_local! {
    static CIPHERTEXT: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK_BYTES].into_boxed_slice());
}

/// An open connection of a client.
#[derive(Debug)]
pub struct ServerSession {
    connection: ServerConnection,
    /// Whether received bytes were not valid: nothing follows that could be trusted.
    is_broken: bool,
    /// Whether the client has closed the connection, with or without saying so by TLS.
    has_ended: bool,
}

impl ServerSession {
    /// Takes over a connection after its handshake.
    pub fn new(connection: ServerConnection) -> Self {
        Self { connection, is_broken: false, has_ended: false }
    }

    /// The names in the verified certificate of the client, if it has one.
    pub fn peer_identity(&self) -> Option<PeerIdentity> {
        PeerIdentity::of_certificate(self.connection.peer_certificates()?.first()?)
    }

    /// Reads decrypted bytes. 0 is the end: the client may close the connection with or without saying so by TLS, as over TCP.
    /// Reads from the socket once at most, so a client that sends records without content does not hold the thread.
    ///
    /// # Errors
    /// `WouldBlock` if too few bytes have arrived; `InvalidData` if they are not valid; else errors of the socket.
    pub fn read(&mut self, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = self.take(buffer)?;
        if count == 0 && !self.has_ended && !buffer.is_empty() {
            if self.is_broken {
                return Err(io::Error::new(ErrorKind::InvalidData, "bytes that are not valid TLS"));
            }
            if buffer.len() < LARGE_BYTES_MIN {
                self.receive(socket)?;
                count = self.take(buffer)?;
            } else {
                count = self.receive_large(socket, buffer)?;
            }
        }
        match count {
            0 if !self.has_ended && !buffer.is_empty() => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    /// Whether [`Self::read`] has something to return without the socket: bytes, the end, or an error.
    pub fn is_ready(&mut self) -> bool {
        let first = self.connection.reader().into_first_chunk();
        self.is_broken || first.map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |_| true)
    }

    /// Whether the client has closed the connection and all of its bytes were read. May read a few records from the socket.
    pub fn is_at_end(&mut self, socket: &mut impl Read) -> bool {
        while !self.has_unread() && !self.has_ended && !self.is_broken {
            if self.receive(socket).is_err() {
                break;
            }
            // Notices the end, and leaves the bytes.
            let ended = self.connection.reader().into_first_chunk();
            self.has_ended = match ended {
                Ok(chunk) => chunk.is_empty(),
                Err(error) => error.kind() == ErrorKind::UnexpectedEof,
            };
        }
        !self.has_unread() && (self.has_ended || self.is_broken)
    }

    fn has_unread(&mut self) -> bool {
        self.connection.reader().into_first_chunk().is_ok_and(|chunk| !chunk.is_empty())
    }

    /// Encrypts and sends the beginning of `bytes`; returns its length. [`Self::flush`] sends what the socket did not take.
    ///
    /// # Errors
    /// `WouldBlock` while bytes of earlier calls are unsent; else errors of the socket.
    pub fn write(&mut self, socket: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        let count = self.connection.writer().write(bytes)?;
        match self.flush(socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    /// Sends encrypted bytes.
    ///
    /// # Errors
    /// `WouldBlock` if the socket does not take all of them; else errors of the socket.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.connection.wants_write() {
            if self.connection.write_tls(socket)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Tells the client by TLS that no bytes will follow, with the next [`Self::flush`].
    pub fn close(&mut self) {
        self.connection.send_close_notify();
    }

    /// Takes decrypted bytes out of the connection; 0 if there are none.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        loop {
            match self.connection.reader().read(&mut buffer[filled..]) {
                // The end, or the buffer is full.
                Ok(0) => {
                    self.has_ended |= filled < buffer.len();
                    return Ok(filled);
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(filled),
                // The client closed the socket without saying so by TLS.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    self.has_ended = true;
                    return Ok(filled);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads a few KiB from the socket.
    fn receive(&mut self, socket: &mut impl Read) -> io::Result<()> {
        self.connection.read_tls(socket)?;
        self.decrypt()
    }

    /// Reads as much from the socket as surely fits into `buffer` once it is decrypted, and decrypts it into `buffer`.
    fn receive_large(&mut self, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        CIPHERTEXT.with_borrow_mut(|chunk| {
            // A record that has arrived in part becomes whole, too.
            let bytes_max = chunk.len().min(buffer.len() - RECORD_BYTES_MAX);
            let count = socket.read(&mut chunk[..bytes_max])?;
            let mut rest = &chunk[..count];
            let mut filled = 0;
            if rest.is_empty() {
                // Notices the end.
                self.connection.read_tls(&mut rest)?;
                return self.take(buffer);
            }
            while !rest.is_empty() && self.connection.read_tls(&mut rest)? > 0 {
                let decrypted = self.decrypt();
                filled += self.take(&mut buffer[filled..])?;
                // What was valid before is read first.
                match decrypted {
                    Err(error) if filled == 0 => return Err(error),
                    Err(_) => break,
                    Ok(()) => {}
                }
            }
            Ok(filled)
        })
    }

    fn decrypt(&mut self) -> io::Result<()> {
        self.connection.process_new_packets().map(drop).map_err(|error| {
            self.is_broken = true;
            io::Error::new(ErrorKind::InvalidData, error)
        })
    }
}

#[cfg(test)]
mod tests;
