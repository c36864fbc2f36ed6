//! A small HTTP client: one call, one connection, a bounded wait.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long reaching a node may take.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// A whole answer.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// Headers, and what came after a body in chunks; names in lower case.
    headers: Vec<(String, String)>,
}

impl HttpResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// The JSON of a 200.
    pub(crate) fn json(&self) -> io::Result<Value> {
        if self.status != 200 {
            return Err(io::Error::other(format!("{}: {}", self.status, String::from_utf8_lossy(&self.body))));
        }
        serde_json::from_slice(&self.body).map_err(io::Error::other)
    }
}

/// Calls, and reads the whole answer; each read may take `patience`.
pub(crate) fn call(
    at: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    timeout: Duration,
) -> io::Result<HttpResponse> {
    let mut stream = TcpStream::connect_timeout(&at, CONNECT_MAX.min(timeout))?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.set_nodelay(true)?;
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nTE: trailers\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat())?;
    read(BufReader::new(stream))
}

/// Calls `GET`.
pub(crate) fn get(at: SocketAddr, target: &str, timeout: Duration) -> io::Result<HttpResponse> {
    call(at, "GET", target, &[], b"", timeout)
}

fn read(mut source: BufReader<TcpStream>) -> io::Result<HttpResponse> {
    let line = line(&mut source)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("not a status line: {line:?}")))?;
    let mut headers = fields(&mut source)?;
    let of = |name: &str| headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.clone());
    let mut body = Vec::new();
    if of("transfer-encoding").as_deref() == Some("chunked") {
        while chunk(&mut source, &mut body)? {}
        headers.extend(fields(&mut source)?);
    } else if let Some(length) = of("content-length") {
        body.resize(length.parse().map_err(io::Error::other)?, 0);
        source.read_exact(&mut body)?;
    } else {
        source.read_to_end(&mut body)?;
    }
    Ok(HttpResponse { status, body, headers })
}

/// Adds the next chunk; `false` when there are no more.
fn chunk(source: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> io::Result<bool> {
    let size = usize::from_str_radix(&line(source)?, 16).map_err(io::Error::other)?;
    if size == 0 {
        return Ok(false);
    }
    let start = body.len();
    body.resize(start + size, 0);
    source.read_exact(&mut body[start..])?;
    line(source)?;
    Ok(true)
}

fn fields(source: &mut BufReader<TcpStream>) -> io::Result<Vec<(String, String)>> {
    let mut fields = Vec::new();
    loop {
        let line = line(source)?;
        let Some((name, value)) = line.split_once(':') else { return Ok(fields) };
        fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// A line that is whole: an answer that broke off is no answer.
fn line(source: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    source.read_line(&mut line)?;
    let text = line.strip_suffix("\r\n").map(str::to_owned);
    text.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, format!("the answer broke off after {line:?}")))
}
