//! Records what a sender sends: the bytes of each of its connections, in `bucksaw/tests/fixtures/senders`.

use std::io::{Read, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes connections on to a node, and keeps the bytes that the sender sent.
pub(super) struct Recorder {
    address: String,
    connections: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Recorder {
    /// Listens on a free port. The threads end with the process.
    pub(super) fn start(to: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let (to, recorded) = (to.to_owned(), Arc::clone(&connections));
        thread::spawn(move || {
            for sender in listener.incoming() {
                let (sender, node) = (sender.unwrap(), TcpStream::connect(&to).unwrap());
                let (answers, answered) = (node.try_clone().unwrap(), sender.try_clone().unwrap());
                let mut connections = recorded.lock().unwrap();
                let number = connections.len();
                connections.push(Vec::new());
                let recorded = Arc::clone(&recorded);
                thread::spawn(move || pass(sender, node, |bytes| recorded.lock().unwrap()[number].extend(bytes)));
                thread::spawn(move || pass(answers, answered, |_| ()));
            }
        });
        Self { address, connections }
    }

    /// Where the sender shall connect.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The bytes of each connection on which the sender sent some, in the order in which they were opened.
    pub(super) fn connections(&self) -> Vec<Vec<u8>> {
        self.connections.lock().unwrap().iter().filter(|bytes| !bytes.is_empty()).cloned().collect()
    }
}

/// Copies until one side closes its connection.
fn pass(mut from: TcpStream, mut to: TcpStream, mut seen: impl FnMut(&[u8])) {
    let mut buffer = [0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        seen(&buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    // Fails if the other side has closed too.
    let _ = to.shutdown(Shutdown::Write);
}

/// The directory of a sender's recording.
fn directory(sender: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/senders").join(sender)
}

/// Replaces the recording of a sender.
pub(super) fn write_fixture(sender: &str, connections: &[Vec<u8>]) {
    let dir = directory(sender);
    // It does not exist for a new sender.
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    for (number, bytes) in (1..).zip(connections) {
        std::fs::write(dir.join(format!("{number}.bin")), bytes).unwrap();
    }
}

/// The recording of a sender: the bytes of each connection, in their order.
pub(super) fn read_fixture(sender: &str) -> Vec<Vec<u8>> {
    let dir = directory(sender);
    let files = (1..).map(|number| std::fs::read(dir.join(format!("{number}.bin"))));
    let connections: Vec<Vec<u8>> = files.map_while(Result::ok).collect();
    assert!(!connections.is_empty(), "no recording in {}: MAKE_FIXTURES=1 make senders", dir.display());
    connections
}
