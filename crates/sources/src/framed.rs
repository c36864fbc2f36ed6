//! A connection with the framed protocol: receives batches, sends acknowledgements.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bucksaw_auth::{AuthRefusalReason, ClientAccess, SecretText};
use bucksaw_env::log_limited;

use bucksaw_ingest::{Durability, IngestError, Source};
use bucksaw_segment::Frame;
use bucksaw_wire::{
    ClientMessage, DecodeProgress, Hello, HelloReply, RefusalCode, ServerMessage, WireError, WireVersion,
};
use tokio::time::timeout;
use tracing::debug;

use crate::acks::AckTracker;
use crate::agents::AgentConnection;
use crate::append_retry::pause_after;
use crate::client_check::PresentedClient;
use crate::intake::RecordStream;
use crate::listener_state::ListenerState;
use crate::message_buffer::{MessageBuffer, ReceiveError};
use crate::one_way::wait_for_rate;
use crate::redirects::{BUSY_TEXT, hello_refusal, redirect_when_due};
use crate::socket::Socket;
use crate::socket_reader::SocketReader;

/// How long missing acknowledgements are awaited when the node stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long they are awaited when the client has closed its side.
const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a client may take to present a token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may take to receive a last message.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionClose {
    Immediate,
    /// The client must be able to read the last message.
    Graceful,
}

/// Why reading ended.
enum ReadEnd {
    /// The client closed its side.
    ClientClosed,
    Stopped,
    /// The client did not leave in time after a redirect.
    Disconnected,
    /// A protocol error, or the queue refuses a batch.
    Failed(String),
}

struct FramedConnection<'a, 'b> {
    shared: &'a Arc<ListenerState>,
    feed: &'a mut SocketReader<'b>,
    inbox: MessageBuffer,
    acks: Arc<AckTracker>,
    stream: RecordStream,
    frame_bytes_max: u32,
    /// Text of the appended batches, in bytes.
    received_bytes: &'a AtomicU64,
    agent: AgentConnection,
    presented: PresentedClient<'a>,
    /// Whether the client may send records.
    is_recognised: bool,
}

/// Serves a client until one side ends the connection. `first` has already arrived.
pub(crate) async fn run(
    socket: &Socket,
    feed: &mut SocketReader<'_>,
    first: Vec<u8>,
    client: PresentedClient<'_>,
    shared: &Arc<ListenerState>,
) -> ConnectionClose {
    let peer = client.peer;
    // A client whose certificate is known may send at once; any other one must present a token first.
    let known = match (shared.authenticates(), client.certificate) {
        (true, None) => None,
        _ => shared.recognise(client, None).await.ok(),
    };
    let mut inbox = MessageBuffer { bytes: first };
    let frame_bytes_max = shared.config.frame_bytes();
    let acks = Arc::new(AckTracker::default());
    let labels = match read_hello(feed, &mut inbox, shared).await {
        Ok(hello) => {
            if let Some(refusal) = hello_refusal(shared, &acks) {
                debug!(%peer, "client redirected to another node");
                let _ = timeout(WRITE_TIMEOUT, socket.write_all(&refusal)).await;
                return ConnectionClose::Graceful;
            }
            let welcome = HelloReply::Welcome { version: hello.version.min(WireVersion::NEWEST), frame_bytes_max };
            if socket.write_all(&welcome.encode()).await.is_err() {
                return ConnectionClose::Immediate;
            }
            hello.labels
        }
        Err(ReceiveError::Ended) => return ConnectionClose::Immediate,
        Err(error) => {
            record_protocol_error(shared, peer, &error.to_string());
            let code = if let ReceiveError::Wire(error) = &error { error.code() } else { RefusalCode::MALFORMED };
            let refused = HelloReply::Refused { code, text: error.to_string() };
            let _ = timeout(WRITE_TIMEOUT, socket.write_all(&refused.encode())).await;
            return ConnectionClose::Graceful;
        }
    };
    let _redirectable = shared.shedder.count_redirectable();
    let received_bytes = AtomicU64::default();
    let framed = FramedConnection {
        shared,
        feed,
        inbox,
        acks: Arc::clone(&acks),
        stream: RecordStream {
            intake: shared.intake.clone().of_client(known.as_ref().unwrap_or(&ClientAccess::default())),
            source: Source::Forward,
            labels,
            durability: shared.setup.durability,
        },
        frame_bytes_max,
        received_bytes: &received_bytes,
        agent: shared.agents.connect(peer.ip(), known.as_ref().and_then(ClientAccess::scope).cloned()),
        presented: client,
        is_recognised: known.is_some(),
    };
    let Some(text) = serve_batches(socket, framed, peer).await else { return ConnectionClose::Immediate };
    debug!(%peer, reason = text, "reporting failed batches to the client");
    let failed = ServerMessage::Failed { acked: acks.acked(), text };
    let _ = timeout(WRITE_TIMEOUT, socket.write_all(&failed.encode())).await;
    ConnectionClose::Graceful
}

async fn read_hello(
    feed: &mut SocketReader<'_>,
    inbox: &mut MessageBuffer,
    shared: &ListenerState,
) -> Result<Hello, ReceiveError> {
    let _permit = inbox.fill(feed, shared, |bytes| Ok(Hello::decode(bytes)?.missing_bytes())).await?;
    match Hello::decode(&inbox.bytes)? {
        DecodeProgress::Complete(hello, used) => {
            inbox.consume(used);
            Ok(hello)
        }
        DecodeProgress::Incomplete(_) => Err(ReceiveError::Ended),
    }
}

/// Receives and acknowledges batches; returns the text of a last message.
async fn serve_batches(socket: &Socket, mut framed: FramedConnection<'_, '_>, peer: SocketAddr) -> Option<String> {
    let acks = Arc::clone(&framed.acks);
    let mut send_acks = pin!(acks.send_acks(socket));
    let (shared, stop, received_bytes) =
        (Arc::clone(framed.shared), framed.feed.stop_receiver(), framed.received_bytes);
    let read_end = tokio::select! {
        failed = &mut send_acks => return failed.ok().flatten(),
        read_end = framed.read(peer) => read_end,
        () = redirect_when_due(&shared, &acks, received_bytes, stop) => ReadEnd::Disconnected,
    };
    acks.end_input();
    let ack_timeout = match &read_end {
        ReadEnd::ClientClosed => HALF_CLOSED_TIMEOUT,
        ReadEnd::Stopped | ReadEnd::Disconnected => STOP_TIMEOUT,
        ReadEnd::Failed(_) => Duration::ZERO,
    };
    let sent = timeout(ack_timeout, send_acks).await;
    match (read_end, sent) {
        (ReadEnd::Failed(text), _) => Some(text),
        // The client is gone.
        (_, Ok(Err(_))) => None,
        (_, Ok(Ok(Some(text)))) => Some(text),
        (ReadEnd::Stopped, _) => Some(IngestError::ShuttingDown.to_string()),
        (ReadEnd::Disconnected, _) => Some(BUSY_TEXT.to_owned()),
        (ReadEnd::ClientClosed, Ok(Ok(None))) => None,
        (ReadEnd::ClientClosed, Err(_)) => Some("durability is not yet reached: send the batches again".to_owned()),
    }
}

impl FramedConnection<'_, '_> {
    async fn read(&mut self, peer: SocketAddr) -> ReadEnd {
        loop {
            match self.read_message().await {
                Ok(()) => {}
                Err(ReceiveError::Ended) => {
                    return if self.feed.is_stopped() { ReadEnd::Stopped } else { ReadEnd::ClientClosed };
                }
                Err(ReceiveError::Refused(refusal)) => return ReadEnd::Failed(refusal.to_string()),
                Err(ReceiveError::Unauthenticated(reason)) => {
                    if reason == AuthRefusalReason::Missing && self.presented.certificate.is_none() {
                        // Counts and logs it.
                        let _ = self.shared.recognise(self.presented, None).await;
                    }
                    return ReadEnd::Failed(ReceiveError::Unauthenticated(reason).to_string());
                }
                Err(error) => {
                    record_protocol_error(self.shared, peer, &error.to_string());
                    return ReadEnd::Failed(error.to_string());
                }
            }
        }
    }

    async fn read_message(&mut self) -> Result<(), ReceiveError> {
        let config = &self.shared.config;
        tokio::select! {
            biased;
            () = self.acks.wait_for_capacity(config.unacked_frames_max) => {}
            // Batches that arrive after the stop are not read.
            () = self.feed.until_stop() => return Err(ReceiveError::Ended),
        }
        wait_for_rate(self.feed, self.stream.intake.client()).await;
        let (max, is_recognised) = (self.frame_bytes_max, self.is_recognised);
        // Of a client that is not recognised, nothing but a token is read.
        let missing = |bytes: &[u8]| match is_recognised || ClientMessage::may_be_token(bytes) {
            true => ClientMessage::missing_bytes(bytes, max),
            false => Ok(0),
        };
        let _permit = match is_recognised {
            true => self.inbox.fill(self.feed, self.shared, missing).await?,
            false => timeout(TOKEN_TIMEOUT, self.inbox.fill(self.feed, self.shared, missing))
                .await
                .map_err(|_| ReceiveError::Unauthenticated(AuthRefusalReason::Missing))??,
        };
        let bytes = std::mem::take(&mut self.inbox.bytes);
        if !is_recognised && !ClientMessage::may_be_token(&bytes) {
            return Err(ReceiveError::Unauthenticated(AuthRefusalReason::Missing));
        }
        if !self.stream.intake.client().is_valid() {
            self.shared.count_ended_credential(self.stream.intake.client());
            return Err(ReceiveError::Unauthenticated(AuthRefusalReason::Expired));
        }
        let used = match ClientMessage::decode(&bytes, max)? {
            DecodeProgress::Complete(ClientMessage::Token(token), used) => {
                self.present(&SecretText::new(token.0)).await?;
                used
            }
            DecodeProgress::Complete(ClientMessage::Batch(frame), used) => {
                self.append_batch(&frame).await?;
                used
            }
            DecodeProgress::Complete(ClientMessage::Labels(labels), used) => {
                self.stream.labels = labels;
                used
            }
            DecodeProgress::Complete(ClientMessage::Flush, used) => {
                if self.shared.setup.durability == Durability::Bulk {
                    self.shared.intake.queue.flush_bulk();
                }
                used
            }
            DecodeProgress::Complete(ClientMessage::Report(report), used) => {
                self.agent.report(report, self.shared.intake.env.clock.uptime());
                used
            }
            DecodeProgress::Incomplete(_) => return Err(ReceiveError::Ended),
        };
        self.inbox.bytes = bytes;
        self.inbox.consume(used);
        // Other clients of the thread get their share.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Recognises the client by its token, which counts from the next message on.
    async fn present(&mut self, token: &SecretText) -> Result<(), ReceiveError> {
        let recognised = self.shared.recognise(self.presented, Some(token)).await;
        let client = recognised.map_err(ReceiveError::Unauthenticated)?;
        self.stream.intake = self.shared.intake.clone().of_client(&client);
        self.agent.set_scope(client.scope().cloned());
        self.is_recognised = true;
        self.acks.queue_message(ServerMessage::Acked(self.acks.acked()));
        Ok(())
    }

    /// Appends a batch; waits while the queue refuses it for now.
    async fn append_batch(&mut self, frame: &Frame<'_>) -> Result<(), ReceiveError> {
        let records = self.stream.prepare_frame(frame).map_err(WireError::Frame)?;
        let text = [frame.text()];
        let bytes = usize::try_from(frame.header.frame_len()).unwrap_or(usize::MAX);
        let number = self.acks.start_batch(bytes);
        while let Err(refusal) = self.stream.append(&records, &text, self.acks.on_durable(number, bytes)) {
            // A client that disconnected sends the batch again, here or to another node.
            let is_final = !refusal.is_transient() || self.feed.is_stopped() || self.feed.is_hung_up().await;
            match pause_after(&refusal).filter(|_| !is_final) {
                Some(pause) => self.feed.pause(pause).await,
                None => return Err(ReceiveError::Refused(refusal)),
            }
        }
        self.received_bytes.fetch_add(frame.text().len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Counts a protocol error, and logs it at a limited rate.
fn record_protocol_error(shared: &ListenerState, peer: SocketAddr, reason: &str) {
    shared.metrics.protocol_errors.inc();
    log_limited!(shared.log_limits, warn, %peer, reason, "protocol error from a framed client");
}
