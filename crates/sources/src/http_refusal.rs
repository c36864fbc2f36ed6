//! Detects HTTP on a line port by its first line, and refuses it.
//!
//! A web page can make a browser send requests to any port, and so write its own lines if the port stored them. Therefore a
//! first line that is an HTTP request line (RFC 9112), or the start of the HTTP/2 preface, ends the connection and nothing is
//! stored. A line that only starts like one (`GET /x took 3 ms`) is a record.

use crate::socket::Socket;

/// The longest method, in bytes. The longest registered one has 17.
const METHOD_MAX: usize = 20;

/// The longest request line, in bytes.
pub(crate) const REQUEST_LINE_MAX: usize = 64 << 10;

/// Whether a first line is an HTTP request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestLine {
    Http,
    Other,
    /// The line has no end yet and may become one.
    Undecided,
}

/// Decides by the first bytes of a connection.
pub(crate) fn detect_request_line(bytes: &[u8]) -> RequestLine {
    let (line, ended) = match bytes.iter().take(REQUEST_LINE_MAX).position(|byte| *byte == b'\n') {
        Some(end) => (bytes.get(..end).unwrap_or_default(), true),
        None => (bytes, false),
    };
    let open = if ended { RequestLine::Other } else { RequestLine::Undecided };
    let method = line.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-').count();
    if method > METHOD_MAX {
        return RequestLine::Other;
    }
    let (method, rest) = line.split_at_checked(method).unwrap_or_default();
    let Some((space, rest)) = rest.split_first() else { return open };
    if *space != b' ' || method.is_empty() {
        return RequestLine::Other;
    }
    let target = rest.iter().take_while(|byte| byte.is_ascii_graphic() || !byte.is_ascii()).count();
    let (target, rest) = rest.split_at_checked(target).unwrap_or_default();
    let Some((space, version)) = rest.split_first() else {
        // A web page chooses the length of its paths, so a path of any length counts as HTTP at the limit.
        let endless = bytes.len() >= REQUEST_LINE_MAX && !ended;
        return match target.first() {
            Some(b'/') if endless => RequestLine::Http,
            _ if endless => RequestLine::Other,
            _ => open,
        };
    };
    if *space != b' ' || target.is_empty() {
        return RequestLine::Other;
    }
    let preface = method == b"PRI" && target == b"*";
    if is_version(version, preface, ended) {
        if ended { RequestLine::Http } else { RequestLine::Undecided }
    } else {
        RequestLine::Other
    }
}

/// Whether this is the version of a request line, or the start of one if the line has not ended.
fn is_version(version: &[u8], preface: bool, ended: bool) -> bool {
    const SAMPLE: &[u8] = b"HTTP/1.1\r";
    let fits = |(at, byte): (usize, &u8)| match at {
        5 if preface => *byte == b'2',
        7 => byte.is_ascii_digit(),
        _ => SAMPLE.get(at) == Some(byte),
    };
    let long_enough = !ended || version.len() + 1 >= SAMPLE.len();
    long_enough && version.len() <= SAMPLE.len() && version.iter().enumerate().all(fits)
}

/// Sends an error with the address of the HTTP port. The caller closes the connection.
pub(crate) async fn refuse(socket: &Socket, http: Option<&str>) {
    let hint = http.map_or_else(|| "this node does not serve HTTP".to_owned(), |at| format!("HTTP is served at {at}"));
    // Addresses need no JSON escapes.
    let body = format!("{{\"error\":\"this port takes log lines over TCP, not HTTP requests: {hint}\"}}\n");
    let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    // The client may have disconnected.
    let _ = socket.write_all(answer.as_bytes()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_are_http_and_all_others_are_lines() {
        let check =
            |bytes: &[u8], want: RequestLine| assert_eq!(detect_request_line(bytes), want, "{}", bytes.escape_ascii());
        for http in [
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.0\n",
            "POST /api/v1/ingest?label=a=b HTTP/1.1\r\nHost: x\r\n\r\nfirst line\n",
            "OPTIONS * HTTP/1.1\r\n",
            "CONNECT a:443 HTTP/1.1\r\n",
            "M-SEARCH * HTTP/1.1\r\n",
            "GET /\u{e9} HTTP/1.1\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            check(http.as_bytes(), RequestLine::Http);
            let line = http.find('\n').unwrap();
            for end in 0..line {
                check(&http.as_bytes()[..end], RequestLine::Undecided);
            }
        }
        for line in [
            "GET\n",
            "GET \n",
            "GET /\n",
            "GET / \n",
            "GET / HTTP\n",
            "GET / HTTP/1.\n",
            "GET / HTTP/1.1 200\n",
            "GET / HTTP/1.1\r\r\n",
            "GET / HTTP/1.1x",
            "GET / HTTP/2.0\r\n",
            "PRI * HTTP/1.1x",
            "GET  / HTTP/1.1",
            " GET / HTTP/1.1\n",
            "get / HTTP/1.1\n",
            "GET /x took 3 ms",
            "GET /x h",
            "GET\t/",
            "ERROR: no",
            "ERROR no disk",
            "A-METHOD-OF-SO-MANY-LETTERS",
            "\n",
            "\r\n",
            "10.0.0.1 - - \"GET / HTTP/1.1\" 200\n",
        ] {
            check(line.as_bytes(), RequestLine::Other);
        }
        let long = |start: &str| [start.as_bytes(), &vec![b'x'; REQUEST_LINE_MAX]].concat();
        check(&long("POST /")[..REQUEST_LINE_MAX - 1], RequestLine::Undecided);
        check(&long("POST /"), RequestLine::Http);
        check(&long("ERROR "), RequestLine::Other);
        check(&[long("ERROR ").as_slice(), b"\n"].concat(), RequestLine::Other);
    }
}
