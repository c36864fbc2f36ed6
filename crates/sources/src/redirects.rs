//! Redirects clients of the framed protocol to less loaded nodes.
//!
//! A new client is redirected with its hello reply. For a connected client the load shedder is asked at intervals
//! ([`LoadShedder::try_redirect`]). At shutdown every client receives failover targets.
//!
//! A client that must leave closes its side after its last whole batch and receives the missing acknowledgements. If it does not
//! close within [`Config::close_timeout`](crate::Config::close_timeout), it receives the acknowledgements of the batches that
//! were read, then the connection ends. It sends the others again to another node.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::sync::atomic::{AtomicU64, Ordering};

use bucksaw_env::Entropy;
use bucksaw_ingest::load_shedder::{ClientRate, LoadShedder, RedirectKind};
use bucksaw_wire::{HelloReply, Redirect, RedirectReason, RefusalCode, ServerMessage};
use tokio::sync::watch;
use tokio::time::{Duration, sleep};

use crate::acks::AckTracker;
use crate::listener_state::ListenerState;
use crate::socket_reader::wait_for_stop;

/// The reason of a refusal or a close, for people.
pub(crate) const BUSY_TEXT: &str = "the node is overloaded; other nodes are less loaded";

/// The messages that refuse a new client; `None` if it is accepted.
pub(crate) fn hello_refusal(shared: &ListenerState, acks: &AckTracker) -> Option<Vec<u8>> {
    let load_shedder = shared.load_shedder();
    let (kind, targets) = load_shedder.admit(shared.port(), &*shared.intake.env.entropy)?;
    if kind != RedirectKind::Refused {
        send_redirect(load_shedder, acks, kind, targets);
        return None;
    }
    load_shedder.count_redirect(kind);
    let mut bytes = HelloReply::Refused { code: RefusalCode::BUSY, text: BUSY_TEXT.to_owned() }.encode();
    if let Some(redirect) = redirect_message(RedirectReason::REFUSAL, targets) {
        bytes.extend_from_slice(&redirect.encode());
    }
    Some(bytes)
}

/// Sends redirects when they are due. Returns when the connection must be closed without the client. `received_bytes` counts
/// the text of the client.
pub(crate) async fn redirect_when_due(
    shared: &ListenerState,
    acks: &AckTracker,
    received_bytes: &AtomicU64,
    mut stop: watch::Receiver<bool>,
) {
    tokio::select! {
        biased;
        () = wait_for_stop(&mut stop) => {}
        () = offer_redirects(shared, acks, received_bytes) => return,
    }
    let targets = shared.load_shedder().failover_targets(shared.port(), &*shared.intake.env.entropy);
    send_redirect(shared.load_shedder(), acks, RedirectKind::Disconnected, targets);
    // The reader handles the stop.
    std::future::pending::<()>().await;
}

async fn offer_redirects(shared: &ListenerState, acks: &AckTracker, received_bytes: &AtomicU64) {
    let (guide, config, env) = (shared.load_shedder(), &shared.config, &shared.intake.env);
    let mut client_rate = ClientRate::new(env.clock.uptime());
    loop {
        sleep(jittered_interval(config.redirect_interval_min, &*env.entropy)).await;
        let now = env.clock.uptime();
        let bytes_per_second = client_rate.sample(now, received_bytes.load(Ordering::Relaxed));
        if !guide.disconnects_clients() && !client_rate.may_be_redirected(now) {
            continue;
        }
        let Some((how, others)) = guide.try_redirect(shared.port(), Some(bytes_per_second), &*env.entropy) else {
            continue;
        };
        send_redirect(guide, acks, how, others);
        client_rate.record_suggestion(now);
        if how == RedirectKind::Disconnected {
            sleep(config.close_timeout).await;
            return;
        }
    }
}

/// A random interval, so that clients that connected together are not redirected together.
fn jittered_interval(least: Duration, entropy: &dyn Entropy) -> Duration {
    let nanos = u64::try_from(least.as_nanos()).unwrap_or(u64::MAX);
    least + Duration::from_nanos(entropy.next_u64() % nanos.max(1))
}

fn send_redirect(guide: &LoadShedder, acks: &AckTracker, how: RedirectKind, others: Vec<String>) {
    let why = if how == RedirectKind::Disconnected { RedirectReason::CLOSE } else { RedirectReason::SUGGESTION };
    if let Some(told) = redirect_message(why, others) {
        guide.count_redirect(how);
        acks.queue_message(told);
    }
}

/// The message; `None` without valid targets.
fn redirect_message(why: RedirectReason, others: Vec<String>) -> Option<ServerMessage> {
    Redirect::new(why, others).map(ServerMessage::Redirect)
}
