use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConnection, RootCertStore, ServerConfig};

use super::*;
use crate::provider::{client_config, provider};

/// One direction of a connection: it takes and gives a limited number of bytes at once.
#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    capacity: usize,
    is_closed: bool,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() && !self.is_closed {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.bytes.read(buffer)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.capacity.saturating_sub(self.bytes.len());
        if room == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.bytes.write(&bytes[..bytes.len().min(room)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client and a session after the handshake.
fn pair() -> (ClientConnection, ServerSession) {
    let issued = rcgen::generate_simple_self_signed(vec!["node".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(issued.cert.der().clone()).unwrap();
    let server = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let server = server.with_no_client_auth().with_single_cert(vec![issued.cert.der().clone()], key).unwrap();
    let client = Arc::new(client_config(roots, &[]).unwrap());
    let mut client = ClientConnection::new(client, ServerName::try_from("node").unwrap()).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    while client.is_handshaking() || server.is_handshaking() || server.wants_write() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut sent = &bytes[..];
        while !sent.is_empty() {
            server.read_tls(&mut sent).unwrap();
            server.process_new_packets().unwrap();
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut sent = &bytes[..];
        while !sent.is_empty() {
            client.read_tls(&mut sent).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    (client, ServerSession::new(server))
}

/// The bytes of TLS for this content in pieces.
fn encrypted(client: &mut ClientConnection, pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let count = client.writer().write(rest).unwrap();
            rest = &rest[count..];
            while client.wants_write() {
                client.write_tls(&mut bytes).unwrap();
            }
        }
    }
    bytes
}

fn is_blocked(read: &io::Result<usize>) -> bool {
    read.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn a_peek_at_the_end_reads_nothing_away() {
    let (mut client, mut session) = pair();
    let mut pipe = Pipe::default();
    assert!(!session.is_at_end(&mut pipe));
    pipe.bytes.extend(encrypted(&mut client, &[b"last".to_vec()]));
    client.send_close_notify();
    let mut end = Vec::new();
    client.write_tls(&mut end).unwrap();
    pipe.bytes.extend(end);
    assert!(!session.is_at_end(&mut pipe) && session.has_unread());
    let mut buffer = [0; 10];
    assert_eq!(session.read(&mut pipe, &mut buffer).unwrap(), 4);
    assert!(session.is_at_end(&mut pipe) && session.is_ready());
    assert_eq!(session.read(&mut pipe, &mut buffer).unwrap(), 0);
    assert_eq!(session.read(&mut pipe, &mut vec![0; 1 << 20]).unwrap(), 0);
}

#[test]
fn a_client_that_closes_the_socket_only_has_ended() {
    for large in [false, true] {
        let (mut client, mut session) = pair();
        let mut pipe = Pipe::default();
        pipe.bytes.extend(encrypted(&mut client, &[b"line".to_vec()]));
        pipe.is_closed = true;
        let mut buffer = vec![0; if large { CHUNK_BYTES } else { 10 }];
        assert_eq!(session.read(&mut pipe, &mut buffer).unwrap(), 4);
        assert_eq!(session.read(&mut pipe, &mut buffer).unwrap(), 0);
    }
}

#[test]
fn what_was_valid_is_read_before_the_error() {
    for size in [100, CHUNK_BYTES] {
        let (mut client, mut session) = pair();
        let mut pipe = Pipe::default();
        pipe.bytes.extend(encrypted(&mut client, &[b"valid".to_vec()]));
        let mut damaged = encrypted(&mut client, &[b"damaged".to_vec()]);
        *damaged.last_mut().unwrap() ^= 1;
        if size == 100 {
            let mut buffer = vec![0; size];
            assert_eq!(session.read(&mut pipe, &mut buffer).unwrap(), 5);
        }
        pipe.bytes.extend(damaged);
        let mut buffer = vec![0; size];
        if size > 100 {
            assert_eq!(session.read(&mut pipe, &mut buffer).unwrap(), 5);
            assert!(session.is_ready(), "the error was read with what was valid");
        }
        for _ in 0..2 {
            assert_eq!(session.read(&mut pipe, &mut buffer).unwrap_err().kind(), ErrorKind::InvalidData);
        }
        assert!(session.is_ready());
        assert!(session.is_at_end(&mut pipe));
    }
}

#[test]
fn a_full_socket_loses_nothing() {
    let (mut client, mut session) = pair();
    let sent: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let (mut written, mut received) = (0, Vec::new());
    while received.len() < sent.len() {
        let mut pipe = Pipe { capacity: 7_000, ..Pipe::default() };
        let _ = session.flush(&mut pipe);
        if written < sent.len() {
            match session.write(&mut pipe, &sent[written..]) {
                Ok(count) => written += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        while !pipe.bytes.is_empty() {
            client.read_tls(&mut pipe).unwrap();
            client.process_new_packets().unwrap();
            let mut buffer = [0; 1 << 14];
            while let Ok(count) = client.reader().read(&mut buffer) {
                received.extend_from_slice(&buffer[..count]);
            }
        }
    }
    assert!(received == sent);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the sizes of records, of arrivals and of the caller's buffers: the bytes are the same, and nothing waits in the
    /// session while the caller has to wait for the socket.
    #[test]
    fn content_arrives_as_it_was_sent(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20_000), 1..20),
        arrivals in prop::collection::vec(1_usize..40_000, 1..20),
        buffers in prop::collection::vec(prop_oneof![1_usize..5_000, LARGE_BYTES_MIN..CHUNK_BYTES], 1..10),
    ) {
        let (mut client, mut session) = pair();
        let bytes = encrypted(&mut client, &pieces);
        let (mut rest, mut received, mut pipe) = (&bytes[..], Vec::new(), Pipe::default());
        let (mut arrivals, mut buffers) = (arrivals.iter().cycle(), buffers.iter().cycle());
        loop {
            let read = {
                let mut buffer = vec![0; *buffers.next().unwrap()];
                let read = session.read(&mut pipe, &mut buffer);
                received.extend_from_slice(&buffer[..*read.as_ref().unwrap_or(&0)]);
                read
            };
            if is_blocked(&read) && pipe.bytes.is_empty() {
                prop_assert!(!session.is_ready());
                if rest.is_empty() {
                    break;
                }
                let (arrived, later) = rest.split_at((*arrivals.next().unwrap()).min(rest.len()));
                pipe.bytes.extend(arrived);
                rest = later;
            } else if !is_blocked(&read) {
                prop_assert!(read.is_ok(), "{read:?}");
            }
        }
        prop_assert!(received == pieces.concat());
    }
}
