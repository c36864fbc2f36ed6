//! Clients of the framed protocol that other nodes should have.
//!
//! A client that came is told at once; one that is there asks now and then whether it is its turn ([`Guide::turn`]). When the
//! node stops, all are told of others, and that they have to go.
//!
//! A client that has to go closes its side after its last whole batch, and hears the acknowledgements that are missing. One
//! that does not within [`Config::goodbye_max`](crate::Config) hears the acknowledgements for what was read and that there will be no more: what was not acknowledged it sends again
//! elsewhere, as after any end.

use std::sync::atomic::{AtomicU64, Ordering};

use bucksaw_doors::Entropy;
use bucksaw_ingest::guide::{Greeting, Guest, Guide, How};
use bucksaw_wire::{Answer, Code, Elsewhere, Told, Why};
use tokio::sync::watch;
use tokio::time::{Duration, sleep};

use crate::acks::Acks;
use crate::feed::stopped;
use crate::shared::Shared;

/// Why a client is sent away, for people.
pub(crate) const BUSY: &str = "the node has too much to do: others have less";

/// What a client is told at its hello, when it is not let in.
pub(crate) fn refusal(shared: &Shared, acks: &Acks) -> Option<Vec<u8>> {
    let guide = shared.guide();
    match guide.greeting(shared.port(), &*shared.intake.doors.entropy) {
        Greeting::Welcome => None,
        Greeting::Suggested(others) => {
            say(guide, acks, How::Suggested, others);
            None
        }
        Greeting::Refused(others) => {
            guide.count(How::Refused);
            let mut words = Answer::Refused { code: Code::BUSY, text: BUSY.to_owned() }.encode();
            if let Some(told) = told(Why::REFUSAL, others) {
                words.extend_from_slice(&told.encode());
            }
            Some(words)
        }
    }
}

/// Tells a client of others when that is due. Returns when it has to be let go without its doing. `brought` is how many bytes
/// of text have come from it.
pub(crate) async fn going(
    shared: &Shared,
    acks: &Acks,
    brought: &AtomicU64,
    mut stop: watch::Receiver<bool>,
) {
    tokio::select! {
        biased;
        () = stopped(&mut stop) => {}
        () = turns(shared, acks, brought) => return,
    }
    let heirs = shared.guide().heirs(shared.port(), &*shared.intake.doors.entropy);
    say(shared.guide(), acks, How::LetGo, heirs);
    // The stop has an order of its own.
    std::future::pending::<()>().await;
}

async fn turns(shared: &Shared, acks: &Acks, brought: &AtomicU64) {
    let (guide, config, doors) = (shared.guide(), &shared.intake.config, &shared.intake.doors);
    let mut guest = Guest::new(doors.clock.uptime());
    loop {
        sleep(between_looks(config.stay_min, &*doors.entropy)).await;
        let now = doors.clock.uptime();
        let brings = guest.look(now, brought.load(Ordering::Relaxed));
        if !guide.lets_go() && !guest.listens(now) {
            continue;
        }
        let Some((how, others)) = guide.turn(shared.port(), Some(brings), &*doors.entropy) else { continue };
        say(guide, acks, how, others);
        guest.told(now);
        if how == How::LetGo {
            sleep(config.goodbye_max).await;
            return;
        }
    }
}

/// Each client looks at a moment of its own, so that those who came together do not go together.
fn between_looks(least: Duration, entropy: &dyn Entropy) -> Duration {
    let nanos = u64::try_from(least.as_nanos()).unwrap_or(u64::MAX);
    least + Duration::from_nanos(entropy.next_u64() % nanos.max(1))
}

fn say(guide: &Guide, acks: &Acks, how: How, others: Vec<String>) {
    let why = if how == How::LetGo { Why::GOODBYE } else { Why::SUGGESTION };
    if let Some(told) = told(why, others) {
        guide.count(how);
        acks.say(told);
    }
}

/// The message, if there is anybody to name.
fn told(why: Why, others: Vec<String>) -> Option<Told> {
    Elsewhere::new(why, others).map(Told::Elsewhere)
}
