//! Replays what senders sent: the recordings of `bucksaw/tests/fixtures/senders`.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::built::{BUILT, BuiltSender, RECORDED, listener_name};
use super::recorder::{read_fixture, write_fixture};
use super::{all_are_stored_as, stored};
use crate::node::TestServer;
use crate::wait::wait_until;

/// A connection on which a recording was sent. It stays open, as the sender kept it open for the answers.
struct Replayed {
    connection: TcpStream,
    answers: Arc<Mutex<Vec<u8>>>,
}

impl Replayed {
    fn send(node: &TestServer, listener: &str, bytes: &[u8]) -> Self {
        let mut connection = node.connect(listener);
        let answers = Arc::new(Mutex::new(Vec::new()));
        let (mut from, read) = (connection.try_clone().unwrap(), Arc::clone(&answers));
        thread::spawn(move || {
            let mut buffer = [0; 4 << 10];
            // Until the connection is closed.
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                read.lock().unwrap().extend(&buffer[..length]);
            }
        });
        connection.write_all(bytes).unwrap();
        Self { connection, answers }
    }

    fn answers(&self) -> Vec<u8> {
        self.answers.lock().unwrap().clone()
    }
}

impl Drop for Replayed {
    fn drop(&mut self) {
        // Fails if the node has closed it.
        let _ = self.connection.shutdown(Shutdown::Both);
    }
}

/// Sends a recording to a node, which must store what the sender said of its records.
fn check(sender: &BuiltSender, connections: &[Vec<u8>]) {
    eprintln!("the recording of {}", sender.name);
    let node = sender.node("127.0.0.1:0", "durable");
    let listener = listener_name(sender.flag);
    let _open: Vec<_> = connections.iter().map(|bytes| Replayed::send(&node, listener, bytes)).collect();
    all_are_stored_as(&node, &sender.stated(RECORDED), sender.view);
    assert_eq!(stored(&node).len(), RECORDED);
}

#[test]
fn recordings_are_stored_as_the_senders_said() {
    thread::scope(|scope| {
        for sender in BUILT {
            scope.spawn(|| check(sender, &read_fixture(sender.name)));
        }
    });
}

/// A sender that got no acknowledgement sends the same chunks again.
#[test]
fn chunks_that_docker_sends_again_are_stored_once() {
    let sender = BUILT.iter().find(|sender| sender.name == "docker-fluentd").unwrap();
    let node = sender.node("127.0.0.1:0", "durable");
    let [chunks] = &read_fixture(sender.name)[..] else { panic!("the driver has one connection") };
    let first = Replayed::send(&node, "fluent", chunks);
    all_are_stored_as(&node, &sender.stated(RECORDED), sender.view);
    let acks = || String::from_utf8_lossy(&first.answers()).matches("ack").count();
    wait_until("the chunks are acknowledged", || acks() == RECORDED);
    let again = Replayed::send(&node, "fluent", chunks);
    wait_until("they are acknowledged again", || again.answers() == first.answers());
    assert_eq!(stored(&node).len(), RECORDED);
}

/// What the senders send today can be replayed; `MAKE_FIXTURES=1` keeps it for `make test`.
#[test]
#[ignore = "needs the programs of `make senders`"]
fn recordings() {
    thread::scope(|scope| {
        for sender in BUILT {
            scope.spawn(|| {
                let connections = sender.record();
                check(sender, &connections);
                if std::env::var_os("MAKE_FIXTURES").is_some() {
                    write_fixture(sender.name, &connections);
                }
            });
        }
    });
}
