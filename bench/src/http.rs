//! Just enough of HTTP/1.1 to ask a node: one connection, kept open.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// How long an answer may let one wait.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A connection to a node.
#[derive(Debug)]
pub(crate) struct HttpClient {
    host: String,
    stream: BufReader<TcpStream>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl HttpReply {
    /// The JSON of a 200.
    pub(crate) fn json(&self) -> anyhow::Result<Value> {
        ensure!(self.status == 200, "status {}: {}", self.status, String::from_utf8_lossy(&self.body));
        serde_json::from_slice(&self.body).context("the answer is not JSON")
    }
}

/// How long the body is.
enum BodyLength {
    Bytes(usize),
    Chunked,
}

impl HttpClient {
    pub(crate) fn connect(host: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(host).with_context(|| format!("cannot connect to {host}"))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self { host: host.to_owned(), stream: BufReader::new(stream) })
    }

    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<HttpReply> {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.host), &[])?;
        self.answer().with_context(|| format!("GET {path}"))
    }

    /// Reads an answer of plain text piece by piece, and keeps none of it.
    pub(crate) fn read(&mut self, path: &str, mut each: impl FnMut(&[u8])) -> anyhow::Result<()> {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: {}\r\naccept: text/plain\r\n\r\n", self.host), &[])?;
        let (status, length) = self.head()?;
        ensure!(status == 200 && matches!(length, BodyLength::Chunked), "GET {path}: status {status}, not a stream");
        let mut piece = Vec::new();
        while self.chunk(&mut piece)? {
            each(&piece);
            piece.clear();
        }
        Ok(())
    }

    /// Sends lines.
    pub(crate) fn post(&mut self, path: &str, format: &str, lines: &[u8]) -> anyhow::Result<HttpReply> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: {format}\r\ncontent-length: {}\r\n\r\n",
            self.host,
            lines.len()
        );
        self.send(&head, lines)?;
        self.answer().with_context(|| format!("POST {path}"))
    }

    /// Asks for objects that come one a line, for ever.
    pub(crate) fn follow(mut self, path: &str) -> anyhow::Result<FollowStream> {
        let head = format!("GET {path} HTTP/1.1\r\nhost: {}\r\naccept: application/x-ndjson\r\n\r\n", self.host);
        self.send(&head, &[])?;
        let (status, length) = self.head()?;
        ensure!(status == 200 && matches!(length, BodyLength::Chunked), "GET {path}: status {status}, not a stream");
        Ok(FollowStream { client: self, partial_line: Vec::new() })
    }

    fn send(&mut self, head: &str, body: &[u8]) -> anyhow::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        Ok(stream.write_all(body)?)
    }

    fn answer(&mut self) -> anyhow::Result<HttpReply> {
        let (status, length) = self.head()?;
        let mut body = Vec::new();
        match length {
            BodyLength::Bytes(bytes) => {
                body.resize(bytes, 0);
                self.stream.read_exact(&mut body)?;
            }
            BodyLength::Chunked => while self.chunk(&mut body)? {},
        }
        Ok(HttpReply { status, body })
    }

    fn head(&mut self) -> anyhow::Result<(u16, BodyLength)> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("not an answer: {first:?}"))?;
        let mut length = BodyLength::Bytes(0);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':') {
                Some(("content-length", bytes)) => length = BodyLength::Bytes(bytes.trim().parse()?),
                Some(("transfer-encoding", _)) => length = BodyLength::Chunked,
                Some(_) => {}
                None => return Ok((status, length)),
            }
        }
    }

    /// Adds the next chunk; `false` when there are no more.
    fn chunk(&mut self, body: &mut Vec<u8>) -> anyhow::Result<bool> {
        let size = usize::from_str_radix(&self.line()?, 16).context("not a chunk")?;
        let start = body.len();
        body.resize(start + size, 0);
        self.stream.read_exact(body.get_mut(start..).unwrap_or_default())?;
        ensure!(self.line()?.is_empty(), "a chunk is longer than it said");
        Ok(size > 0)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            bail!("the node hung up");
        }
        Ok(line.trim_end().to_owned())
    }
}

/// Objects that come one a line.
#[derive(Debug)]
pub(crate) struct FollowStream {
    client: HttpClient,
    partial_line: Vec<u8>,
}

impl FollowStream {
    /// Ends it from another thread.
    pub(crate) fn stopper(&self) -> anyhow::Result<FollowStopper> {
        Ok(FollowStopper(self.client.stream.get_ref().try_clone()?))
    }

    /// Gives every line that came in with the next chunk; `false` at the end.
    pub(crate) fn next(&mut self, mut line: impl FnMut(&[u8])) -> anyhow::Result<bool> {
        let more = self.client.chunk(&mut self.partial_line)?;
        let whole = memchr::memrchr(b'\n', &self.partial_line).map_or(0, |at| at + 1);
        self.partial_line.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n').for_each(&mut line);
        self.partial_line.drain(..whole);
        Ok(more)
    }
}

/// Ends a [`Follow`].
#[derive(Debug)]
pub(crate) struct FollowStopper(TcpStream);

impl FollowStopper {
    pub(crate) fn stop(&self) {
        // What is closed already needs no closing.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A client, and a server that says `script`, whatever it is asked.
    fn said(script: &'static str) -> HttpClient {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = HttpClient::connect(&listener.local_addr().unwrap().to_string()).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(script.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            // Held open until the client goes: a close would throw away what it has not read.
            stream.read_to_end(&mut Vec::new()).unwrap();
        });
        client
    }

    #[test]
    fn answers_are_read() {
        let mut client =
            said("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 503 no\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(client.get("/").unwrap().json().unwrap(), serde_json::json!({}));
        assert_eq!(client.post("/", "text/plain", b"x").unwrap().status, 503);
        assert!(client.get("/").is_err());
    }

    #[test]
    fn streams_are_read_by_line() {
        let script = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\na\nb\r\n4\r\nc\nd\n\r\n0\r\n\r\n";
        let mut follow = said(script).follow("/").unwrap();
        let mut lines = Vec::new();
        let mut add = |line: &[u8]| {
            if !line.is_empty() {
                lines.push(String::from_utf8(line.to_vec()).unwrap());
            }
        };
        while follow.next(&mut add).unwrap() {}
        assert_eq!(lines, ["a", "bc", "d"]);
    }
}
