//! A small HTTP client that keeps every byte: heads, bodies in chunks, trailers.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::wait::WAIT_MAX;

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// What came after a body in chunks; names in lower case.
    pub(crate) trailers: Vec<(String, String)>,
}

impl Response {
    /// The value of a header, or else of a trailer.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self.headers.iter().chain(&self.trailers);
        pairs.find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The body as JSON objects, one a line.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let lines = self.body.split_inclusive(|byte| *byte == b'\n');
        lines
            .map(|line| serde_json::from_slice(line).unwrap_or_else(|error| panic!("{error}: {}", self.text())))
            .collect()
    }

    /// Itself, when the status is this.
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:?}: {}", self.headers, self.text());
        self
    }
}

/// Calls and reads the whole answer.
pub(crate) fn call(
    address: &str,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Response> {
    let mut open = StreamingResponse::call(address, method, target, headers, body)?;
    let mut body = Vec::new();
    open.body.read_to_end(&mut body)?;
    Ok(Response { status: open.status, headers: open.headers, body, trailers: open.body.trailers })
}

/// An answer whose body is still to be read.
#[derive(Debug)]
pub(crate) struct StreamingResponse {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: ResponseBody,
}

impl StreamingResponse {
    /// Calls and reads the head of the answer.
    pub(crate) fn call(
        address: &str,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(WAIT_MAX))?;
        stream.set_write_timeout(Some(WAIT_MAX))?;
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nTE: trailers\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || method == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        // A node that has heard enough answers before it has read all: the answer counts.
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        match (Self::read(stream), sent) {
            (Err(_), Err(error)) => Err(error),
            (answer, _) => answer,
        }
    }

    /// Reads the head of an answer.
    pub(crate) fn read(stream: TcpStream) -> io::Result<Self> {
        let mut source = BufReader::new(stream);
        let line = read_line(&mut source)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("not a status line: {line:?}")))?;
        let headers = read_headers(&mut source)?;
        let header = |name: &str| headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str());
        let left = if header("transfer-encoding") == Some("chunked") {
            BodyRemaining::Chunks(0)
        } else {
            let length = header("content-length").map(str::parse).transpose().map_err(io::Error::other)?;
            BodyRemaining::Bytes(length.unwrap_or(u64::MAX))
        };
        Ok(Self { status, headers, body: ResponseBody { source, remaining: left, trailers: Vec::new() } })
    }
}

/// The body of an answer, out of its chunks.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    source: BufReader<TcpStream>,
    remaining: BodyRemaining,
    trailers: Vec<(String, String)>,
}

#[derive(Debug)]
enum BodyRemaining {
    /// So many, or up to the end of the connection.
    Bytes(u64),
    /// So many of this chunk, and then more chunks.
    Chunks(u64),
}

impl ResponseBody {
    /// Reads up to and with the next LF.
    pub(crate) fn line(&mut self) -> io::Result<Vec<u8>> {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\n") && self.read(&mut byte)? == 1 {
            line.extend_from_slice(&byte);
        }
        Ok(line)
    }
}

impl Read for ResponseBody {
    fn read(&mut self, window: &mut [u8]) -> io::Result<usize> {
        if let BodyRemaining::Chunks(0) = self.remaining {
            let size = read_line(&mut self.source)?;
            let size = u64::from_str_radix(&size, 16).map_err(io::Error::other)?;
            self.remaining = if size == 0 { BodyRemaining::Bytes(0) } else { BodyRemaining::Chunks(size) };
            if size == 0 {
                self.trailers = read_headers(&mut self.source)?;
            }
        }
        let (left, chunked) = match self.remaining {
            BodyRemaining::Bytes(left) => (left, false),
            BodyRemaining::Chunks(left) => (left, true),
        };
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(window.len());
        let read = self.source.read(&mut window[..most])?;
        if read == 0 && most > 0 && left != u64::MAX {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let rest = left - read as u64;
        self.remaining = if chunked { BodyRemaining::Chunks(rest) } else { BodyRemaining::Bytes(rest) };
        if chunked && rest == 0 {
            read_line(&mut self.source)?;
        }
        Ok(read)
    }
}

fn read_line(source: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    source.read_line(&mut line)?;
    let Some(text) = line.strip_suffix("\r\n") else {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("the answer broke off after {line:?}")));
    };
    Ok(text.to_owned())
}

fn read_headers(source: &mut BufReader<TcpStream>) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let line = read_line(source)?;
        let Some((name, value)) = line.split_once(':') else { return Ok(headers) };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// Bytes as they stand in a query string.
pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    let escape = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.as_ref().iter().map(escape).collect()
}
