//! Blocking HTTP/1.1 client for tests, fault injection and benchmarks.
//!
//! Keeps every byte of a reply: headers, body with a length or in chunks, trailers. A reply that ends early is an error.
//! It does not follow redirects, decompress, or use TLS.

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// The maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A complete reply.
#[derive(Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body, without chunk framing.
    pub body: Vec<u8>,
    /// Trailers of a chunked body, with names in lower case.
    pub trailers: Vec<(String, String)>,
}

impl Response {
    /// The value of a header, or else of a trailer.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self.headers.iter().chain(&self.trailers);
        pairs.find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// The body as text, with invalid UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    pub fn json(&self) -> Value {
        self.parse(&self.body)
    }

    /// The body as JSON values, one per line.
    ///
    /// # Panics
    /// If a line is not JSON.
    pub fn objects(&self) -> Vec<Value> {
        self.body.split_inclusive(|byte| *byte == b'\n').map(|line| self.parse(line)).collect()
    }

    #[expect(clippy::panic, reason = "an assertion of tests")]
    fn parse(&self, json: &[u8]) -> Value {
        serde_json::from_slice(json).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Returns the reply if it has this status.
    ///
    /// # Panics
    /// If it has another one.
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:?}: {}", self.headers, self.text());
        self
    }

    /// The JSON body of a reply with status 200.
    ///
    /// # Errors
    /// Another status, or a body that is not JSON.
    pub fn ok_json(&self) -> io::Result<Value> {
        if self.status != 200 {
            return Err(io::Error::other(format!("{}: {}", self.status, self.text())));
        }
        serde_json::from_slice(&self.body).map_err(io::Error::other)
    }
}

/// Sends one request over a new connection and reads the whole reply. `timeout` limits each read and write.
///
/// # Errors
/// The connection failed, or the reply is malformed or incomplete.
pub fn call(
    address: impl ToSocketAddrs,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    timeout: Duration,
) -> io::Result<Response> {
    open(address, method, target, headers, body, timeout)?.into_response()
}

/// Sends a `GET` as [`call`] does.
///
/// # Errors
/// As [`call`].
pub fn get(address: impl ToSocketAddrs, target: &str, timeout: Duration) -> io::Result<Response> {
    call(address, "GET", target, &[], b"", timeout)
}

/// Sends one request over a new connection and reads the head of the reply.
///
/// # Errors
/// As [`call`].
pub fn open(
    address: impl ToSocketAddrs,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    timeout: Duration,
) -> io::Result<StreamingResponse> {
    let headers = [headers, &[("Connection", "close")]].concat();
    Client::connect(address, timeout)?.open(method, target, &headers, body)
}

/// A connection for several requests, one at a time.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects. `timeout` limits each read and write.
    ///
    /// # Errors
    /// The address cannot be resolved or reached.
    pub fn connect(address: impl ToSocketAddrs, timeout: Duration) -> io::Result<Self> {
        let address = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT.min(timeout))?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.set_nodelay(true)?;
        Ok(Self { address, stream: BufReader::new(stream) })
    }

    /// Sends a request and reads the whole reply.
    ///
    /// # Errors
    /// As [`call`].
    pub fn call(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Response> {
        self.open_borrowed(method, target, headers, body)?.into_response()
    }

    /// Sends a `GET` as [`Self::call`] does.
    ///
    /// # Errors
    /// As [`call`].
    pub fn get(&mut self, target: &str) -> io::Result<Response> {
        self.call("GET", target, &[], b"")
    }

    /// Sends a request and reads the head of the reply. The connection can be used again once the body is read.
    ///
    /// # Errors
    /// As [`call`].
    pub fn open_borrowed(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<StreamingResponse<&mut BufReader<TcpStream>>> {
        let sent = self.send(method, target, headers, body);
        StreamingResponse::parse(&mut self.stream).map_err(|error| sent.err().unwrap_or(error))
    }

    /// Sends a request and reads the head of the reply, which takes over the connection.
    ///
    /// # Errors
    /// As [`call`].
    pub fn open(
        mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<StreamingResponse> {
        // A node may reply and close before it has read the whole body, so the reply counts even if sending fails.
        let sent = self.send(method, target, headers, body);
        StreamingResponse::parse(self.stream).map_err(|error| sent.err().unwrap_or(error))
    }

    fn send(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nTE: trailers\r\n", self.address);
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || method == "POST" {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)
    }
}

/// A reply whose body is not yet read.
#[derive(Debug)]
pub struct StreamingResponse<S = BufReader<TcpStream>> {
    /// Status code.
    pub status: u16,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: ResponseBody<S>,
}

impl StreamingResponse {
    /// Reads the head of a reply from a connection over which a request was sent.
    ///
    /// # Errors
    /// As [`call`].
    pub fn read(stream: TcpStream) -> io::Result<Self> {
        Self::parse(BufReader::new(stream))
    }
}

impl<S: BufRead> StreamingResponse<S> {
    fn parse(mut source: S) -> io::Result<Self> {
        let line = read_line(&mut source)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("not a status line: {line:?}")))?;
        let headers = read_headers(&mut source)?;
        let header = |name: &str| headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str());
        let remaining = if matches!(status, 204 | 304) {
            // These have no body, and need not say so.
            BodyRemaining::Bytes(0)
        } else if header("transfer-encoding") == Some("chunked") {
            BodyRemaining::Chunks(0)
        } else {
            let length = header("content-length").map(str::parse).transpose().map_err(io::Error::other)?;
            BodyRemaining::Bytes(length.unwrap_or(u64::MAX))
        };
        Ok(Self { status, headers, body: ResponseBody { source, remaining, trailers: Vec::new() } })
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// As [`call`].
    pub fn into_response(mut self) -> io::Result<Response> {
        let mut body = Vec::new();
        self.body.read_to_end(&mut body)?;
        Ok(Response { status: self.status, headers: self.headers, body, trailers: self.body.trailers })
    }
}

/// The body of a reply, without chunk framing.
#[derive(Debug)]
pub struct ResponseBody<S = BufReader<TcpStream>> {
    source: S,
    remaining: BodyRemaining,
    trailers: Vec<(String, String)>,
}

#[derive(Debug)]
enum BodyRemaining {
    /// The bytes up to the end of the body; `u64::MAX` is the end of the connection.
    Bytes(u64),
    /// The bytes up to the end of the current chunk.
    Chunks(u64),
}

impl ResponseBody {
    /// Reads up to and including the next LF.
    ///
    /// # Errors
    /// As [`call`].
    pub fn line(&mut self) -> io::Result<Vec<u8>> {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\n") && self.read(&mut byte)? == 1 {
            line.extend_from_slice(&byte);
        }
        Ok(line)
    }

    /// The connection, for example to shut it down from another thread.
    pub fn socket(&self) -> &TcpStream {
        self.source.get_ref()
    }
}

impl<S: BufRead> Read for ResponseBody<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let BodyRemaining::Chunks(0) = self.remaining {
            let size = u64::from_str_radix(&read_line(&mut self.source)?, 16).map_err(io::Error::other)?;
            self.remaining = if size == 0 { BodyRemaining::Bytes(0) } else { BodyRemaining::Chunks(size) };
            if size == 0 {
                self.trailers = read_headers(&mut self.source)?;
            }
        }
        let (remaining, is_chunked) = match self.remaining {
            BodyRemaining::Bytes(remaining) => (remaining, false),
            BodyRemaining::Chunks(remaining) => (remaining, true),
        };
        let bytes_max = usize::try_from(remaining).unwrap_or(usize::MAX).min(buffer.len());
        if bytes_max == 0 {
            // A `BufReader` would wait for the next reply, even to read nothing.
            return Ok(0);
        }
        let read = self.source.read(&mut buffer[..bytes_max])?;
        if read == 0 && remaining != u64::MAX {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let remaining = remaining - read as u64;
        self.remaining = if is_chunked { BodyRemaining::Chunks(remaining) } else { BodyRemaining::Bytes(remaining) };
        if is_chunked && remaining == 0 {
            read_line(&mut self.source)?;
        }
        Ok(read)
    }
}

fn read_line(source: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    source.read_line(&mut line)?;
    let text = line.strip_suffix("\r\n").map(str::to_owned);
    text.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, format!("the reply ended after {line:?}")))
}

fn read_headers(source: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let line = read_line(source)?;
        let Some((name, value)) = line.split_once(':') else { return Ok(headers) };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// Compresses a body with gzip.
pub fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(text);
    encoder.finish().unwrap_or_default()
}

/// Percent-encodes bytes for a query string.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    let escape = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.as_ref().iter().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener};

    /// A client of a server that sends `script` whatever the request.
    fn scripted(script: &'static str) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::connect(listener.local_addr().unwrap(), Duration::from_secs(10)).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(script.as_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            // Closing the socket earlier would discard data that the client has not read.
            stream.read_to_end(&mut Vec::new()).unwrap();
        });
        client
    }

    #[test]
    fn replies_on_one_connection_are_read_in_order() {
        let mut client =
            scripted("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 503 no\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(client.get("/").unwrap().ok_json().unwrap(), serde_json::json!({}));
        let refused = client.call("POST", "/", &[], b"x").unwrap();
        assert!(refused.status == 503 && refused.ok_json().is_err());
        assert!(client.get("/").is_err());
    }

    #[test]
    fn a_body_with_a_length_ends_while_the_connection_stays_open() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = Client::connect(listener.local_addr().unwrap(), Duration::from_secs(10)).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for _ in 0..2 {
                assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            }
        });
        for _ in 0..2 {
            assert_eq!(client.get("/").unwrap().text(), "{}");
        }
        server.join().unwrap();
    }

    #[test]
    fn chunked_bodies_and_trailers_are_read() {
        let script =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\n4\r\nc\nd\n\r\n0\r\nX-End: 1\r\n\r\n";
        let response = scripted(script).open("GET", "/", &[], b"").unwrap().into_response().unwrap();
        assert_eq!((response.text().as_str(), response.header("x-end")), ("a\nbc\nd\n", Some("1")));
    }

    #[test]
    fn truncated_bodies_are_errors() {
        for script in [
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "HTTP/1.1 200 OK\r\n",
        ] {
            assert!(scripted(script).get("/").is_err(), "{script}");
        }
    }
}
