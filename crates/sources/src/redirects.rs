//! Carries out redirects of framed clients, which [`bucksaw_steering`] decides.
//!
//! A new client is redirected with its hello reply, a connected one by a message. A client that must leave closes its side after
//! its last whole batch and receives the missing acknowledgements. If it does not close within
//! [`Config::close_timeout`](crate::Config::close_timeout), it receives the acknowledgements of the batches that were read, then
//! the connection ends. It sends the other batches again to another node.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::sync::atomic::{AtomicU64, Ordering};

use bucksaw_env::wait_for_stop;
use bucksaw_steering::{ClientRate, RedirectDecision, RedirectKind, jittered};
use bucksaw_wire::{HelloReply, Redirect, RedirectReason, RefusalCode, ServerMessage};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::acks::AckTracker;
use crate::listener_state::ListenerState;

/// The text of a refusal or a close.
pub(crate) const BUSY_TEXT: &str = "the node is overloaded; other nodes are less loaded";

/// The messages that refuse a new client; `None` if it is accepted.
pub(crate) fn hello_refusal(shared: &ListenerState, acks: &AckTracker) -> Option<Vec<u8>> {
    let decision = shared.shedder.admit(shared.port(), &*shared.intake.env.entropy)?;
    if decision.kind != RedirectKind::Refused {
        send_redirect(acks, decision);
        return None;
    }
    let mut messages = HelloReply::Refused { code: RefusalCode::BUSY, text: BUSY_TEXT.to_owned() }.encode();
    if let Some(redirect) = Redirect::new(RedirectReason::REFUSAL, decision.targets) {
        messages.extend_from_slice(&ServerMessage::Redirect(redirect).encode());
    }
    Some(messages)
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
        () = check_client(shared, acks, received_bytes) => return,
    }
    if let Some(decision) = shared.shedder.failover(shared.port(), &*shared.intake.env.entropy) {
        send_redirect(acks, decision);
    }
    // The reader handles the stop.
    std::future::pending::<()>().await;
}

/// Checks a client at intervals. Returns when it had to leave and did not in time.
async fn check_client(shared: &ListenerState, acks: &AckTracker, received_bytes: &AtomicU64) {
    let (config, env) = (&shared.config, &shared.intake.env);
    let mut client = ClientRate::new(env.clock.uptime());
    loop {
        sleep(jittered(config.redirect_interval_min, &*env.entropy)).await;
        let (now, bytes) = (env.clock.uptime(), received_bytes.load(Ordering::Relaxed));
        let decision = shared.shedder.check_client(&mut client, now, bytes, shared.port(), &*env.entropy);
        let Some(decision) = decision else { continue };
        let kind = decision.kind;
        send_redirect(acks, decision);
        if kind == RedirectKind::Disconnected {
            return sleep(config.close_timeout).await;
        }
    }
}

fn send_redirect(acks: &AckTracker, decision: RedirectDecision) {
    let must_leave = decision.kind == RedirectKind::Disconnected;
    let reason = if must_leave { RedirectReason::CLOSE } else { RedirectReason::SUGGESTION };
    if let Some(redirect) = Redirect::new(reason, decision.targets) {
        acks.queue_message(ServerMessage::Redirect(redirect));
    }
}
