//! A connection that speaks the framed protocol: batches in, acknowledgements out.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bucksaw_ingest::{BySource, Durability, Records, Refusal, Source};
use bucksaw_record::{Labels, Marks};
use bucksaw_segment::Frame;
use bucksaw_wire::{Answer, Code, Hello, Message, Step, Told, Version, WireError};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::acks::{Acks, write};
use crate::feed::Feed;
use crate::going::{BUSY, going, refusal};
use crate::inbox::{Fault, Inbox};
use crate::lines::pause_after;
use crate::shared::Shared;
use crate::times::stamped;

/// How long open promises are waited for when the node stops.
const STOP_MAX: Duration = Duration::from_secs(5);

/// How long they are waited for when the client has closed its side and only listens.
const LISTENER_MAX: Duration = Duration::from_secs(60);

/// How long a client may take to take a last message.
const WRITE_MAX: Duration = Duration::from_secs(5);

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All is said.
    Silent,
    /// The client was told why; it must be able to read that.
    Farewell,
}

/// Why no more batches are read.
enum Halt {
    /// The client closed its side.
    Ended,
    Stopped,
    /// The client has to go to another node.
    LetGo,
    /// The client, or the queue, cannot go on.
    Failed(String),
}

struct Framed<'a, 'b> {
    shared: &'a Arc<Shared>,
    feed: &'a mut Feed<'b>,
    inbox: Inbox,
    acks: Arc<Acks>,
    labels: Labels,
    frame_bytes_max: u32,
    /// Bytes of text that were taken.
    brought: &'a AtomicU64,
}

/// Speaks the protocol until one side ends it; `first` came already.
pub(crate) async fn run(
    socket: &TcpStream,
    feed: &mut Feed<'_>,
    first: Vec<u8>,
    peer: SocketAddr,
    shared: &Arc<Shared>,
) -> End {
    let mut inbox = Inbox { bytes: first };
    let frame_bytes_max = shared.intake.config.frame_bytes();
    let acks = Arc::new(Acks::default());
    let labels = match greet(feed, &mut inbox, shared).await {
        Ok(hello) => {
            if let Some(refusal) = refusal(shared, &acks) {
                debug!(%peer, "a client is told to go to another node");
                let _ = timeout(WRITE_MAX, write(socket, &refusal)).await;
                return End::Farewell;
            }
            let welcome = Answer::Welcome { version: hello.version.min(Version::NEWEST), frame_bytes_max };
            if write(socket, &welcome.encode()).await.is_err() {
                return End::Silent;
            }
            hello.labels
        }
        Err(Fault::Ended) => return End::Silent,
        Err(fault) => {
            broken(shared, peer, &fault.to_string());
            let code = if let Fault::Wire(error) = &fault { error.code() } else { Code::MALFORMED };
            let refused = Answer::Refused { code, text: fault.to_string() };
            let _ = timeout(WRITE_MAX, write(socket, &refused.encode())).await;
            return End::Farewell;
        }
    };
    let _movable = shared.guide().movable();
    let brought = AtomicU64::default();
    let framed = Framed { shared, feed, inbox, acks: Arc::clone(&acks), labels, frame_bytes_max, brought: &brought };
    let Some(text) = converse(socket, framed, peer).await else { return End::Silent };
    debug!(%peer, reason = text, "a client is told that its batches are not kept");
    let failed = Told::Failed { acked: acks.safe(), text };
    let _ = timeout(WRITE_MAX, write(socket, &failed.encode())).await;
    End::Farewell
}

async fn greet(feed: &mut Feed<'_>, inbox: &mut Inbox, shared: &Shared) -> Result<Hello, Fault> {
    let _permit = inbox.fill(feed, shared, |bytes| Ok(Hello::decode(bytes)?.missing())).await?;
    match Hello::decode(&inbox.bytes)? {
        Step::Whole(hello, used) => {
            inbox.consume(used);
            Ok(hello)
        }
        Step::Need(_) => Err(Fault::Ended),
    }
}

/// Reads batches and tells of them; returns what the client has to be told at the end.
async fn converse(socket: &TcpStream, mut framed: Framed<'_, '_>, peer: SocketAddr) -> Option<String> {
    let acks = Arc::clone(&framed.acks);
    let mut telling = pin!(acks.tell(socket));
    let (shared, stopping, brought) = (Arc::clone(framed.shared), framed.feed.stopping(), framed.brought);
    let halt = tokio::select! {
        told = &mut telling => return told.ok().flatten(),
        halt = framed.read(peer) => halt,
        () = going(&shared, &acks, brought, stopping) => Halt::LetGo,
    };
    acks.end();
    let patience = match &halt {
        Halt::Ended => LISTENER_MAX,
        Halt::Stopped | Halt::LetGo => STOP_MAX,
        Halt::Failed(_) => Duration::ZERO,
    };
    let told = timeout(patience, telling).await;
    match (halt, told) {
        (Halt::Failed(text), _) => Some(text),
        // The client is gone.
        (_, Ok(Err(_))) => None,
        (_, Ok(Ok(Some(text)))) => Some(text),
        (Halt::Stopped, _) => Some(Refusal::Closed.to_string()),
        (Halt::LetGo, _) => Some(BUSY.to_owned()),
        (Halt::Ended, Ok(Ok(None))) => None,
        (Halt::Ended, Err(_)) => Some("the promise does not hold yet: send the batches again".to_owned()),
    }
}

impl Framed<'_, '_> {
    async fn read(&mut self, peer: SocketAddr) -> Halt {
        loop {
            match self.step().await {
                Ok(()) => {}
                Err(Fault::Ended) => return if self.feed.is_stopped() { Halt::Stopped } else { Halt::Ended },
                Err(Fault::Refused(refusal)) => return Halt::Failed(refusal.to_string()),
                Err(fault) => {
                    broken(self.shared, peer, &fault.to_string());
                    return Halt::Failed(fault.to_string());
                }
            }
        }
    }

    async fn step(&mut self) -> Result<(), Fault> {
        let config = &self.shared.intake.config;
        tokio::select! {
            biased;
            () = self.acks.room(config.unacked_frames_max, config.unacked_bytes_max) => {}
            // What is open now is all that will be waited for.
            () = self.feed.until_stopped() => return Err(Fault::Ended),
        }
        let max = self.frame_bytes_max;
        let _permit = self.inbox.fill(self.feed, self.shared, |bytes| Message::missing(bytes, max)).await?;
        let bytes = std::mem::take(&mut self.inbox.bytes);
        let used = match Message::decode(&bytes, max)? {
            Step::Whole(Message::Batch(frame), used) => {
                self.take(&frame).await?;
                used
            }
            Step::Whole(Message::Flush, used) => {
                if self.shared.durability == Durability::Bulk {
                    self.shared.intake.queue.flush_bulk();
                }
                used
            }
            Step::Need(_) => return Err(Fault::Ended),
        };
        self.inbox.bytes = bytes;
        self.inbox.consume(used);
        // A client that always has more must not keep the others waiting.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Appends a batch; waits while the queue takes nothing.
    async fn take(&mut self, frame: &Frame<'_>) -> Result<(), Fault> {
        let rows = frame.rows().map_err(WireError::Frame)?;
        let queue = &self.shared.intake.queue;
        let stamped = stamped(frame, self.shared.now());
        let bytes = usize::try_from(frame.header.frame_len()).unwrap_or(usize::MAX);
        let number = self.acks.begin(bytes);
        let text = [frame.text()];
        let mut records = Records {
            source: Source::Forward,
            labels: &self.labels,
            first: stamped.first,
            count: frame.header.count,
            accepted: self.shared.now(),
            flags: stamped.flags,
            sides: &stamped.sides,
            text: &text,
        };
        while let Err(refusal) = queue.append(self.shared.durability, &records, self.acks.done(number, bytes)) {
            // A client that is gone sends the batch again elsewhere, or here.
            let useless = !refusal.passes() || self.feed.is_stopped() || self.feed.is_hung_up().await;
            match pause_after(&refusal).filter(|_| !useless) {
                Some(pause) => self.feed.pause(pause).await,
                None => return Err(Fault::Refused(refusal)),
            }
            records.accepted = self.shared.now();
        }
        self.brought.fetch_add(frame.text().len() as u64, Ordering::Relaxed);
        let by = BySource { source: Source::Forward.name() };
        let cuts = rows.marks.iter().filter(|(_, bits)| bits & Marks::CUT != 0).count() as u64;
        for (family, count) in
            [(&queue.metrics().cut_records, cuts), (&queue.metrics().times_replaced, stamped.replaced)]
        {
            if count > 0 {
                family.get_or_create(&by).inc_by(count);
            }
        }
        Ok(())
    }
}

/// Counts a client that broke the protocol, and logs it now and then.
fn broken(shared: &Shared, peer: SocketAddr, reason: &str) {
    shared.intake.metrics.protocol_errors.inc();
    if let Some(suppressed) = shared.may_log(|errors| &errors.protocol) {
        warn!(%peer, reason, suppressed, "a client of the framed protocol breaks it");
    }
}
