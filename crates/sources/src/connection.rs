//! One connection, from its first byte to its end.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_auth::{CertificateNames, SecretText};
use bucksaw_env::log_limited;

use bucksaw_record::Labels;
use bucksaw_wire::MAGIC;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tracing::debug;

use crate::client_check::PresentedClient;
use crate::connection_peer::alternative_names;
use crate::listener_setup::ListenerProtocol;
use crate::listener_state::{CarriedBytesGuard, ListenerState};
use crate::protocol::{LABELS_LINE_MAX, Protocol};
use crate::socket::Socket;
use crate::socket_reader::{CHUNK_BYTES, SocketRead, SocketReader};
use crate::{events, fluent, framed, http_refusal, lines};

/// Bytes that suffice to detect the protocol.
const DETECT_BYTES: usize = 4 << 10;

/// How long a client that received an error may take to close its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) async fn run(mut socket: Socket, peer: SocketAddr, shared: Arc<ListenerState>, stop: watch::Receiver<bool>) {
    let _open = shared.count_connection();
    let mut feed = SocketReader::new(&socket, stop, Arc::clone(&shared.intake.env.clock));
    // Nothing was read yet, so the sender learns that nothing arrived.
    if !shared.setup.is_lines() && !feed.is_stopped() && shared.refuses_unredirectable() {
        shared.shedder.count_refused();
        debug!(%peer, "connection closed: this node is overloaded and others are less loaded");
        return;
    }
    let identity = socket.identity().cloned();
    let sans = identity.as_deref().map(alternative_names).unwrap_or_default();
    let certificate = identity.as_deref().map(|identity| CertificateNames { subject: &identity.subject, sans: &sans });
    let client = PresentedClient { peer, certificate };
    if let ListenerProtocol::Fluent(key) = &shared.setup.protocol {
        fluent::run(&socket, &mut feed, &shared, client, key.as_ref()).await;
        return;
    }
    let (protocol, mut first, token) = detect_protocol(&mut feed, &shared).await;
    if protocol == Protocol::Http {
        shared.metrics.http_refused.inc();
        log_limited!(shared.log_limits, warn, %peer, listener = shared.setup.name, "HTTP request refused: another port serves HTTP");
        drop(feed);
        http_refusal::refuse(&socket, shared.config.http_address.as_deref()).await;
        close_gracefully(&mut socket).await;
        return;
    }
    if protocol == Protocol::Tls {
        shared.metrics.tls_refused.inc();
        return log_limited!(shared.log_limits, warn, %peer, listener = shared.setup.name, "connection with TLS refused: this node has no certificate (--tls-cert)");
    }
    if !shared.setup.is_lines() {
        let Ok(client) = shared.recognise(client, None).await else { return };
        return events::run(&mut feed, &shared, &client, peer, first).await;
    }
    if !matches!(protocol, Protocol::Framed) && !feed.is_stopped() && shared.refuses_unredirectable() {
        // Lines have no replies, so a redirect cannot be sent.
        shared.metrics.dropped_bytes.inc_by(first.len() as u64);
        shared.shedder.count_refused();
        debug!(%peer, "connection closed: this node is overloaded and others are less loaded");
        return;
    }
    let labels = match protocol {
        Protocol::Framed => {
            // Boxed, because its state is large and connections with lines do not need it.
            if Box::pin(framed::run(&socket, &mut feed, first, client, &shared)).await
                == framed::ConnectionClose::Graceful
            {
                drop(feed);
                close_gracefully(&mut socket).await;
            }
            return;
        }
        Protocol::LinesWithLabels(labels, line) => {
            first.drain(..line.min(first.len()));
            labels
        }
        Protocol::LinesWithInvalidLabels(reason) => {
            log_limited!(shared.log_limits, warn, %peer, %reason, "a first line `#labels …` does not set labels; it is kept as a record");
            Labels::default()
        }
        Protocol::Http | Protocol::Tls | Protocol::Lines | Protocol::Undecided | Protocol::Token(_) => {
            Labels::default()
        }
    };
    let Ok(client) = shared.recognise(client, token.as_ref()).await else {
        shared.metrics.dropped_bytes.inc_by(first.len() as u64);
        return;
    };
    lines::run(&mut feed, &shared, &client, labels, first).await;
}

/// Reads until the protocol is detected. A stream that ends before is lines. A line with a token is removed, so that it is no
/// record on any node.
async fn detect_protocol(
    feed: &mut SocketReader<'_>,
    shared: &Arc<ListenerState>,
) -> (Protocol, Vec<u8>, Option<SecretText>) {
    let mut carried = CarriedBytesGuard::new(shared);
    let (mut first, mut token) = (Vec::new(), None);
    loop {
        let protocol = if shared.setup.is_lines() { Protocol::detect(&first) } else { Protocol::detect_http(&first) };
        if let Protocol::Token(line) = protocol {
            token = Protocol::token(first.get(..line).unwrap_or_default());
            first.drain(..line.min(first.len()));
            continue;
        }
        if protocol != Protocol::Undecided || shared.exceeds_memory_share(first.len()) || !feed.wait().await {
            return (protocol, first, token);
        }
        // While the queue refuses records, a new client may occupy little memory. Of a client that is closed unless it uses the
        // framed protocol, only the magic is read.
        let bytes_max = match first.is_empty() {
            _ if shared.refuses_unredirectable() => MAGIC.len(),
            _ if shared.is_refusing() => DETECT_BYTES,
            true => CHUNK_BYTES,
            false => LABELS_LINE_MAX,
        };
        if matches!(feed.read(bytes_max, |chunk| first.extend_from_slice(chunk)), SocketRead::Ended) {
            return (protocol, first, token);
        }
        carried.set(first.len());
    }
}

/// Closes after the client has closed its side. Closing with unread bytes would reset the connection, and the client could lose
/// the last message.
async fn close_gracefully(socket: &mut Socket) {
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
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, read_out).await;
}
