//! A connection with the forward protocol of Fluentd.
//!
//! ```text
//!   socket ─► FluentInbox ─► FluentDecoder ─► EventRecords ─► queue
//!          ◄─ write_acks ◄─ once the records of a chunk have their durability
//! ```
//! A sender that waits for acknowledgements names each chunk, and sends it again when none arrives. The name is the
//! idempotency key of its records, so that they are stored once. Without a name the sender does not repeat a message,
//! so records that the queue refuses are kept and appended later. Such messages that arrive together are appended together.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

mod acks;
mod connection_end;
mod handshake;
mod heartbeat;
mod inbox;
mod records;
mod waiting_senders;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_auth::ClientAccess;
use bucksaw_env::log_limited;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::debug;

use crate::client_check::PresentedClient;
use crate::listener_state::ListenerState;
use crate::one_way::wait_for_rate;
use crate::shared_key::SharedKey;
use crate::socket::Socket;
use crate::socket_reader::SocketReader;
use acks::{ACKS_MAX, PendingAck, write_acks};
use connection_end::FluentEnd;
use inbox::FluentInbox;
use records::FluentRecords;

pub use heartbeat::serve_heartbeats;
pub use waiting_senders::{WaitingSender, WaitingSenders};

/// How long acknowledgements are waited for when the node stops, and when the sender has closed its side.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a sender is read while it has more, before the others of its thread are.
const READS_PER_TURN: u32 = 2;

/// Reads messages until the sender closes the connection, a message is damaged, or the node stops.
pub(crate) async fn run(
    socket: &Socket,
    feed: &mut SocketReader<'_>,
    shared: &Arc<ListenerState>,
    client: PresentedClient<'_>,
    key: Option<&SharedKey>,
) {
    let peer = client.peer;
    let end = serve(socket, feed, shared, client, key).await;
    match &end {
        FluentEnd::Closed => {}
        FluentEnd::Message(_) | FluentEnd::Sender(_) => {
            shared.metrics.protocol_errors.inc();
            log_limited!(shared.log_limits, warn, %peer, listener = shared.setup.name, reason = %end, "connection closed");
        }
        FluentEnd::Refused(_) | FluentEnd::Unreachable => debug!(%peer, reason = %end, "connection closed"),
    }
}

async fn serve(
    socket: &Socket,
    feed: &mut SocketReader<'_>,
    shared: &Arc<ListenerState>,
    presented: PresentedClient<'_>,
    key: Option<&SharedKey>,
) -> FluentEnd {
    let mut inbox = FluentInbox::new(shared);
    let client = match handshake::check(socket, feed, shared, &mut inbox, (presented, key)).await {
        Ok(client) => client,
        Err(end) => return end,
    };
    let (acks, pending) = mpsc::channel(ACKS_MAX);
    let mut writer = pin!(write_acks(socket, shared, pending));
    let end = tokio::select! {
        end = &mut writer => return end,
        end = read(feed, (shared, &client), inbox, &acks) => end,
    };
    drop(acks);
    let time = if feed.is_stopped() { STOP_TIMEOUT } else { HALF_CLOSED_TIMEOUT };
    // A sender without acknowledgements has none to wait for.
    match timeout(time, writer).await {
        Ok(FluentEnd::Closed) | Err(_) => end,
        Ok(failed) => failed,
    }
}

/// Reads messages, and passes on their acknowledgements.
async fn read(
    feed: &mut SocketReader<'_>,
    (shared, client): (&Arc<ListenerState>, &ClientAccess),
    mut inbox: FluentInbox<'_>,
    acks: &mpsc::Sender<PendingAck>,
) -> FluentEnd {
    let mut records = FluentRecords::new(shared, client);
    let mut reads = 0;
    loop {
        if !client.is_valid() {
            shared.count_ended_credential(client);
            return FluentEnd::Sender("its credential is no longer valid");
        }
        let end = append_arrived(&mut inbox, &mut records, feed, acks).await.err();
        // Messages before a damaged one are whole.
        let flushed = records.flush(feed).await;
        if let Some(end) = end.or(flushed.err()) {
            return end;
        }
        reads = if inbox.may_have_more() { reads + 1 } else { 0 };
        if reads == READS_PER_TURN {
            // Other clients of the thread get their share.
            tokio::task::yield_now().await;
            reads = 0;
        }
        wait_for_rate(feed, client).await;
        if let Err(end) = inbox.read(feed).await {
            return end;
        }
    }
}

/// Appends the messages that have arrived. Those without a chunk are left to a flush, so that many short messages cost one
/// append.
async fn append_arrived(
    inbox: &mut FluentInbox<'_>,
    records: &mut FluentRecords<'_>,
    feed: &mut SocketReader<'_>,
    acks: &mpsc::Sender<PendingAck>,
) -> Result<(), FluentEnd> {
    while let Some(message) = inbox.arrived()? {
        if let Some(ack) = records.append(message, feed).await? {
            acks.send(ack).await.map_err(|_| FluentEnd::Unreachable)?;
        }
    }
    Ok(())
}
