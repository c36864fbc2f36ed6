//! Clients of the framed protocol that other nodes should have.
//!
//! A client that came is told at once; one that is there asks now and then whether it is its turn ([`Guide::turn`]). When the
//! node stops, all are told of others, and that they have to go.
//!
//! A client that has to go closes its side after its last whole batch, and hears the acknowledgements that are missing. One
//! that does not within [`Config::goodbye_max`](crate::Config) hears the acknowledgements for what was read and that there will be no more: what was not acknowledged it sends again
//! elsewhere, as after any end.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::sync::atomic::{AtomicU64, Ordering};

use bucksaw_env::Entropy;
use bucksaw_ingest::load_shedder::{AdmissionDecision, ClientRate, LoadShedder, RedirectKind};
use bucksaw_wire::{HelloReply, Redirect, RedirectReason, RefusalCode, ServerMessage};
use tokio::sync::watch;
use tokio::time::{Duration, sleep};

use crate::acks::AckTracker;
use crate::listener_state::ListenerState;
use crate::socket_reader::wait_for_stop;

/// Why a client is sent away, for people.
pub(crate) const BUSY_TEXT: &str = "the node is overloaded; other nodes are less loaded";

/// What a client is told at its hello, when it is not let in.
pub(crate) fn hello_refusal(shared: &ListenerState, acks: &AckTracker) -> Option<Vec<u8>> {
    let guide = shared.load_shedder();
    match guide.admit(shared.port(), &*shared.intake.env.entropy) {
        AdmissionDecision::Accepted => None,
        AdmissionDecision::Suggested(others) => {
            send_redirect(guide, acks, RedirectKind::Suggested, others);
            None
        }
        AdmissionDecision::Refused(others) => {
            guide.count_redirect(RedirectKind::Refused);
            let mut words = HelloReply::Refused { code: RefusalCode::BUSY, text: BUSY_TEXT.to_owned() }.encode();
            if let Some(told) = redirect_message(RedirectReason::REFUSAL, others) {
                words.extend_from_slice(&told.encode());
            }
            Some(words)
        }
    }
}

/// Tells a client of others when that is due. Returns when it has to be let go without its doing. `brought` is how many bytes
/// of text have come from it.
pub(crate) async fn redirect_when_due(
    shared: &ListenerState,
    acks: &AckTracker,
    brought: &AtomicU64,
    mut stop: watch::Receiver<bool>,
) {
    tokio::select! {
        biased;
        () = wait_for_stop(&mut stop) => {}
        () = offer_redirects(shared, acks, brought) => return,
    }
    let targets = shared.load_shedder().failover_targets(shared.port(), &*shared.intake.env.entropy);
    send_redirect(shared.load_shedder(), acks, RedirectKind::Disconnected, targets);
    // The stop has an order of its own.
    std::future::pending::<()>().await;
}

async fn offer_redirects(shared: &ListenerState, acks: &AckTracker, brought: &AtomicU64) {
    let (guide, config, env) = (shared.load_shedder(), &shared.config, &shared.intake.env);
    let mut client_rate = ClientRate::new(env.clock.uptime());
    loop {
        sleep(jittered_interval(config.redirect_interval_min, &*env.entropy)).await;
        let now = env.clock.uptime();
        let bytes_per_second = client_rate.sample(now, brought.load(Ordering::Relaxed));
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

/// Each client looks at a moment of its own, so that those who came together do not go together.
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

/// The message, if there is anybody to name.
fn redirect_message(why: RedirectReason, others: Vec<String>) -> Option<ServerMessage> {
    Redirect::new(why, others).map(ServerMessage::Redirect)
}
