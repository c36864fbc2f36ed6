//! Reads the lines of a streamed reply as they arrive.

use std::io::Read as _;
use std::net::{Shutdown, TcpStream};

use anyhow::ensure;
use bucksaw_faults::http::{Client, StreamingResponse};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// A streamed reply of one JSON object per line.
#[derive(Debug)]
pub(crate) struct NdjsonStream {
    response: StreamingResponse,
    buffer: Vec<u8>,
    partial_line: Vec<u8>,
}

impl NdjsonStream {
    /// Requests a stream over a connection.
    pub(crate) fn open(client: Client, target: &str) -> anyhow::Result<Self> {
        let response = client.open("GET", target, &[("Accept", "application/x-ndjson")], b"")?;
        ensure!(response.status == 200, "GET {target}: status {}", response.status);
        Ok(Self { response, buffer: vec![0; READ_BYTES], partial_line: Vec::new() })
    }

    /// Returns a handle that ends the stream from another thread.
    pub(crate) fn stopper(&self) -> anyhow::Result<StreamStopper> {
        Ok(StreamStopper(self.response.body.socket().try_clone()?))
    }

    /// Reads once and passes each complete line to `visit`. Returns false at the end of the stream.
    pub(crate) fn read_lines(&mut self, visit: impl FnMut(&[u8])) -> anyhow::Result<bool> {
        let read = self.response.body.read(&mut self.buffer)?;
        self.partial_line.extend_from_slice(self.buffer.get(..read).unwrap_or_default());
        let complete = memchr::memrchr(b'\n', &self.partial_line).map_or(0, |at| at + 1);
        self.partial_line.get(..complete).unwrap_or_default().split(|byte| *byte == b'\n').for_each(visit);
        self.partial_line.drain(..complete);
        Ok(read > 0)
    }
}

/// Ends a [`NdjsonStream`].
#[derive(Debug)]
pub(crate) struct StreamStopper(TcpStream);

impl StreamStopper {
    pub(crate) fn stop(&self) {
        // Fails if the connection is already closed.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn lines_that_span_chunks_are_joined() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::connect(listener.local_addr().unwrap(), Duration::from_secs(10)).unwrap();
        let server = std::thread::spawn(move || {
            let chunks = "3\r\na\nb\r\n4\r\nc\nd\n\r\n0\r\n\r\n";
            let (mut stream, _) = listener.accept().unwrap();
            write!(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        });
        let mut stream = NdjsonStream::open(client, "/").unwrap();
        let mut lines = Vec::new();
        let mut add = |line: &[u8]| {
            if !line.is_empty() {
                lines.push(String::from_utf8(line.to_vec()).unwrap());
            }
        };
        while stream.read_lines(&mut add).unwrap() {}
        assert_eq!(lines, ["a", "bc", "d"]);
        drop(stream);
        server.join().unwrap();
    }
}
