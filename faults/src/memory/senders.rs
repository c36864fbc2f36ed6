//! Senders of other log systems: requests over HTTP, and the protocols of listeners of their own.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};

use serde_json::json;

use super::load_state::{LoadState, REQUEST_TIMEOUT, drain, millis};

/// Ports of the listeners that are off by default.
const SYSLOG: u16 = 7_514;
const GELF: u16 = 7_201;
const FLUENT: u16 = 7_224;
const OTLP: u16 = 7_317;

/// Lines of a request or of a chunk.
const LINES: usize = 5_000;

/// Lines of a stream between two looks at the stop.
const PIECE_LINES: usize = 1_000;

/// The flags that turn the listeners on.
pub(super) fn arguments(ip: Ipv4Addr) -> Vec<String> {
    let listener = |name: &str, port: u16| [format!("--listen-{name}"), format!("{ip}:{port}")];
    [("syslog", SYSLOG), ("gelf", GELF), ("fluent", FLUENT), ("otlp", OTLP)]
        .into_iter()
        .flat_map(|(name, port)| listener(name, port))
        .collect()
}

/// The addresses of the listeners, each with the start of a message that never ends.
pub(super) fn unfinished(ip: Ipv4Addr) -> [(SocketAddr, &'static [u8]); 4] {
    let at = |port: u16| SocketAddr::from((ip, port));
    [
        (at(SYSLOG), b"999999 <13>1 - - - - - - "),
        (at(GELF), b"{\"version\":\"1.1\",\"host\":\"h\",\"short_message\":\""),
        // A chunk of 16 MiB of records in one string.
        (at(FLUENT), b"\x92\xa1t\xdb\x01\x00\x00\x00"),
        (at(OTLP), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ]
}

/// A body for `/loki/api/v1/push` and its number of records.
pub(super) fn loki(turn: usize) -> (Vec<u8>, u64) {
    let nanos = millis() * 1_000_000;
    let values: Vec<_> = lines(turn)
        .enumerate()
        .map(|(at, line)| json!([(nanos + at as u64).to_string(), line, {"trace_id": trace(turn, at)}]))
        .collect();
    (json!({"streams": [{"stream": {"app": "shop"}, "values": values}]}).to_string().into_bytes(), LINES as u64)
}

/// A body for `/_bulk`.
pub(super) fn bulk(turn: usize) -> (Vec<u8>, u64) {
    let mut body = String::new();
    for (at, line) in lines(turn).enumerate() {
        let document = json!({"@timestamp": millis(), "trace_id": trace(turn, at), "message": line});
        body += &format!("{{\"create\":{{\"_index\":\"logs\"}}}}\n{document}\n");
    }
    (body.into_bytes(), LINES as u64)
}

/// A body for `/v1/logs`.
pub(super) fn otlp(turn: usize) -> (Vec<u8>, u64) {
    let nanos = (millis() * 1_000_000).to_string();
    let attribute = |name: &str, value: String| json!({"key": name, "value": {"stringValue": value}});
    let records: Vec<_> = lines(turn)
        .enumerate()
        .map(|(at, line)| {
            let attributes = [attribute("pod", format!("web-{}", at % 7)), attribute("request", trace(turn, at))];
            json!({"timeUnixNano": nanos, "body": {"stringValue": line}, "attributes": attributes})
        })
        .collect();
    (json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).to_string().into_bytes(), LINES as u64)
}

fn lines(turn: usize) -> impl Iterator<Item = String> {
    (0..LINES).map(move |at| {
        format!("GET /item/{} 200 in {} ms for 10.0.{}.{}", turn * LINES + at, at % 97, turn % 256, at % 256)
    })
}

fn trace(turn: usize, at: usize) -> String {
    let number = (turn * LINES + at) as u64;
    format!("{:016x}{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number)
}

/// Writes syslog messages with structured data over TCP. Returns their number once the node has read all.
pub(super) fn syslog(shared: &LoadState, ip: Ipv4Addr, name: &str) -> u64 {
    stream(shared, (ip, SYSLOG).into(), |number, out| {
        let id = trace(0, number as usize);
        let message = format!("<14>1 - host {name} 7 - [o@1 trace=\"{id}\" pod=\"web-{}\"] paid {number}", number % 7);
        out.extend_from_slice(format!("{} {message}", message.len()).as_bytes());
    })
}

/// Writes GELF messages over TCP. Returns their number once the node has read all.
pub(super) fn gelf(shared: &LoadState, ip: Ipv4Addr, name: &str) -> u64 {
    stream(shared, (ip, GELF).into(), |number, out| {
        let id = trace(0, number as usize);
        let message = json!({"version": "1.1", "host": "h", "short_message": format!("paid {number}"), "_app": name, "_trace": id});
        out.extend_from_slice(message.to_string().as_bytes());
        out.push(0);
    })
}

/// Writes messages as fast as the node accepts them, until the stop.
fn stream(shared: &LoadState, at: SocketAddr, message: impl Fn(u64, &mut Vec<u8>)) -> u64 {
    let Ok(mut socket) = TcpStream::connect(at) else { return 0 };
    let (mut sent, mut piece) = (0, Vec::new());
    while !shared.stopped() {
        piece.clear();
        for number in sent..sent + PIECE_LINES as u64 {
            message(number, &mut piece);
        }
        if socket.write_all(&piece).is_err() {
            return sent;
        }
        sent += PIECE_LINES as u64;
    }
    // The node closes its side after reading everything.
    let _ = socket.shutdown(Shutdown::Write);
    let _ = socket.set_read_timeout(Some(REQUEST_TIMEOUT));
    let _ = drain(&mut socket);
    sent
}

/// Sends chunks by the forward protocol of Fluentd, each once the one before is acknowledged; the tag is the name. Returns the
/// number of acknowledged records.
pub(super) fn fluent(shared: &LoadState, ip: Ipv4Addr, name: &str) -> u64 {
    let mut acknowledged = 0;
    let mut connection: Option<TcpStream> = None;
    for turn in 0.. {
        if shared.stopped() {
            break;
        }
        let id = format!("{name} {} {turn}", millis());
        let chunk = fluent_chunk(name, &id, turn);
        let encoded_id = chunk[chunk.len() - id.len() - 2..].to_vec();
        // A chunk that was sent is repeated until its outcome is known, also after the stop.
        for _ in 0..1_000 {
            connection = connection.or_else(|| {
                let socket = TcpStream::connect((ip, FLUENT)).ok()?;
                socket.set_read_timeout(Some(REQUEST_TIMEOUT)).ok()?;
                Some(socket)
            });
            if connection.as_mut().is_some_and(|socket| is_acknowledged(socket, &chunk, &encoded_id)) {
                acknowledged += LINES as u64;
                break;
            }
            connection = None;
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
    acknowledged
}

fn is_acknowledged(socket: &mut TcpStream, chunk: &[u8], id: &[u8]) -> bool {
    if socket.write_all(chunk).is_err() {
        return false;
    }
    // A map of one pair: `ack`, and the name as it was sent.
    let mut reply = vec![0; 1 + 4 + id.len()];
    socket.read_exact(&mut reply).is_ok() && reply.ends_with(id)
}

/// A message in the mode Forward: tag, records, option.
fn fluent_chunk(tag: &str, id: &str, turn: usize) -> Vec<u8> {
    let text = |out: &mut Vec<u8>, text: &str| {
        out.push(0xd9);
        out.push(text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    };
    let mut out = vec![0x93];
    text(&mut out, tag);
    out.push(0xdc);
    out.extend_from_slice(&(LINES as u16).to_be_bytes());
    for (at, line) in lines(turn).enumerate() {
        out.extend_from_slice(&[0x92, 0xce]);
        out.extend_from_slice(&((millis() / 1_000) as u32).to_be_bytes());
        out.push(0x82);
        text(&mut out, "log");
        text(&mut out, &line);
        text(&mut out, "trace");
        text(&mut out, &trace(turn, at));
    }
    out.push(0x81);
    text(&mut out, "chunk");
    text(&mut out, id);
    out
}
