//! Connections over TLS that send bytes of their own.

use std::io;
use std::path::Path;

use bucksaw_env::Env;
use bucksaw_tls::{ClientFiles, ClientTls, TlsStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::wait::WAIT_MAX;

/// An open connection.
pub(crate) struct TlsConnection {
    runtime: Runtime,
    stream: TlsStream<TcpStream>,
}

impl TlsConnection {
    /// Connects, and offers to speak these protocols.
    pub(crate) fn open(address: &str, ca: &Path, protocols: &[&[u8]]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let files = ClientFiles { ca: Some(ca.to_owned()), ..ClientFiles::default() };
        let tls = ClientTls::load(Env::real().fs, files, protocols).unwrap();
        let stream = runtime.block_on(async {
            let socket = TcpStream::connect(address).await.unwrap();
            timeout(WAIT_MAX, tls.connect("127.0.0.1", socket)).await.unwrap().unwrap()
        });
        Self { runtime, stream }
    }

    /// The protocol that the server selected.
    pub(crate) fn protocol(&self) -> Option<Vec<u8>> {
        self.stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)
    }

    /// The certificate of the server, in DER.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        self.stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }

    /// Sends bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let stream = &mut self.stream;
        self.runtime.block_on(async {
            stream.write_all(bytes).await.unwrap();
            stream.flush().await.unwrap();
        });
    }

    /// Closes the sending side, and reads to the end.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.runtime.block_on(self.stream.shutdown()).unwrap();
        self.read_to_end()
    }

    /// Reads to the end.
    pub(crate) fn read_to_end(mut self) -> Vec<u8> {
        let mut answer = Vec::new();
        self.runtime.block_on(async {
            match timeout(WAIT_MAX, self.stream.read_to_end(&mut answer)).await.unwrap() {
                // Line ports close without saying so by TLS.
                Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => panic!("{error}"),
                _ => {}
            }
        });
        answer
    }
}

/// The answer to a GET request.
pub(crate) fn request(address: &str, ca: &Path, target: &str) -> String {
    let mut connection = TlsConnection::open(address, ca, &[b"http/1.1"]);
    connection.send(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").as_bytes());
    String::from_utf8(connection.read_to_end()).unwrap()
}
