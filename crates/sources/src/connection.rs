//! One connection, from its first byte to its last.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_ingest::guide::How;
use bucksaw_record::Labels;
use bucksaw_wire::MAGIC;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::feed::{CHUNK_BYTES, Feed, Read};
use crate::opening::{LABELS_LINE_MAX, Opening};
use crate::shared::{Carried, Opened, Shared};
use crate::{framed, http, lines};

/// A client that says nothing is probed after this, and given up when it does not answer: else those that vanished
/// without a word would use up the connections in the end.
const PROBE_AFTER: Duration = Duration::from_secs(60);
const PROBE_EVERY: Duration = Duration::from_secs(15);
const PROBES: u32 = 4;

/// Enough to tell which protocol a client speaks, in bytes.
const FIRST_BYTES: usize = 4 << 10;

/// How long a client that was told of an error has to close its side.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

pub(crate) async fn run(mut socket: TcpStream, peer: SocketAddr, shared: Arc<Shared>, stop: watch::Receiver<bool>) {
    let _opened = Opened::new(&shared);
    if let Err(error) = prepare(&socket) {
        debug!(%peer, %error, "cannot set the options of a connection");
    }
    let mut feed = Feed::new(&socket, stop, Arc::clone(&shared.intake.doors.clock));
    let (opening, mut first) = open(&mut feed, &shared).await;
    if opening == Opening::Http {
        shared.intake.metrics.http_refused.inc();
        if let Some(suppressed) = shared.may_log(|errors| &errors.http) {
            warn!(%peer, suppressed, "a client speaks HTTP at a port for lines: it is refused");
        }
        drop(feed);
        http::refuse(&mut socket, shared.intake.config.http_address.as_deref()).await;
        farewell(&mut socket).await;
        return;
    }
    if !matches!(opening, Opening::Framed) && !feed.is_stopped() && shared.guide().shuts(shared.port()) {
        // It cannot be told where to go; what it sent tells it by coming to nothing.
        shared.intake.metrics.dropped_bytes.inc_by(first.len() as u64);
        shared.guide().count(How::Refused);
        debug!(%peer, "a connection is closed: this node has too much to do, and others less");
        return;
    }
    let labels = match opening {
        Opening::Framed => {
            // Boxed, so that the many connections with lines do not hold its size.
            if Box::pin(framed::run(&socket, &mut feed, first, peer, &shared)).await == framed::End::Farewell {
                drop(feed);
                farewell(&mut socket).await;
            }
            return;
        }
        Opening::Labelled(labels, line) => {
            first.drain(..line.min(first.len()));
            labels
        }
        Opening::Mislabelled(reason) => {
            if let Some(suppressed) = shared.may_log(|errors| &errors.labels) {
                warn!(%peer, %reason, suppressed, "a first line `#labels …` does not set labels; it is kept as a record");
            }
            Labels::default()
        }
        // HTTP was refused above.
        Opening::Http | Opening::Lines | Opening::Undecided => Labels::default(),
    };
    lines::run(&mut feed, &shared, labels, first).await;
}

/// Reads until the first bytes decide; a stream that ends before that is lines.
async fn open(feed: &mut Feed<'_>, shared: &Arc<Shared>) -> (Opening, Vec<u8>) {
    let mut carried = Carried::new(shared);
    let mut first = Vec::new();
    loop {
        let opening = Opening::of(&first);
        if opening != Opening::Undecided || shared.wants_back(first.len()) {
            return (opening, first);
        }
        if !feed.wait().await {
            return (opening, first);
        }
        // While the queue takes nothing, each new client may leave a little here, and not a chunk. Of one that will be
        // closed unless it speaks the framed protocol, no more is read than tells that.
        let most = match first.is_empty() {
            _ if shared.guide().shuts(shared.port()) => MAGIC.len(),
            _ if shared.is_refusing() => FIRST_BYTES,
            true => CHUNK_BYTES,
            false => LABELS_LINE_MAX,
        };
        if matches!(feed.read(most, |chunk| first.extend_from_slice(chunk)), Read::End) {
            return (opening, first);
        }
        carried.set(first.len());
    }
}

fn prepare(socket: &TcpStream) -> std::io::Result<()> {
    use rustix::net::sockopt;
    // Acknowledgements are small and awaited.
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(socket, PROBE_EVERY)?;
    sockopt::set_tcp_keepcnt(socket, PROBES)?;
    Ok(())
}

/// Closes so that the client can read the last message: closing with bytes unread would reset the connection and could
/// take the message with it.
async fn farewell(socket: &mut TcpStream) {
    let read_out = async {
        socket.shutdown().await?;
        loop {
            socket.readable().await?;
            let mut sink = [0; 4 << 10];
            match socket.try_read(&mut sink) {
                Ok(0) => return Ok::<(), std::io::Error>(()),
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    };
    let _ = tokio::time::timeout(FAREWELL_MAX, read_out).await;
}
