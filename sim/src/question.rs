//! Questions of people: whichever node is asked, also one that is cut off, stands still or has just begun, asks all nodes
//! over the network, as the program does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_doors::Tasks;
use bucksaw_doors::sim::World;
use bucksaw_query::{Bucket, Division, Order, Request, RequestError, Scatter, Stats, Stretch};
use bucksaw_record::{Expr, Id, Millis};
use tokio::sync::oneshot;

use crate::answer::{Answer, Content};
use crate::chance::Chance;
use crate::fleet::Fleet;
use crate::ledger::{Ledger, Violation};
use crate::machine::Machine;

/// Records of an answer that has a limit, at most.
const LIMIT_MAX: usize = 200;

/// How long a reader who is slow rests between what he reads, and how often; then he reads on quickly.
const REST: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(3));
const RESTS: usize = 5;

/// The time of a histogram: so much that no wall clock of a run is beyond it, in stretches of a minute and a half. A node whose
/// clock is days behind numbers batches with keys by it.
const FROM: Millis = Millis(1_767_225_600_000 - 4 * 24 * 3_600_000);
const TO: Millis = Millis(FROM.0 + 10 * 24 * 3_600_000);
const STRETCHES: usize = 10_000;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records in an order, and how many at most.
    Records(Order, Option<u64>),
    /// How many there are.
    Count,
    /// How many there are of each time.
    Histogram,
}

impl Kind {
    /// All of which every record is a part.
    pub(crate) const WHOLE: [Self; 3] = [Self::Records(Order::Ascending, None), Self::Count, Self::Histogram];

    fn drawn(chance: &Chance) -> Self {
        let order = if chance.percent(50) { Order::Ascending } else { Order::Descending };
        match chance.below(6) {
            0 => Self::Count,
            1 => Self::Histogram,
            2 => Self::Records(order, Some(chance.within(1, LIMIT_MAX) as u64)),
            _ => Self::Records(order, None),
        }
    }
}

/// A question that was asked and is not answered yet.
pub(crate) struct Question {
    asked_of: usize,
    asked_at: Duration,
    kind: Kind,
    /// What must be in a complete answer.
    due: BTreeSet<Id>,
    /// All is well, so that it must be complete.
    is_last: bool,
    told: oneshot::Receiver<Result<(Content, Stats), RequestError>>,
}

/// How a question stands.
pub(crate) enum Standing {
    Open(Question),
    /// Whoever was asked is no more.
    Void,
    Answered(Answer),
    Wrong(Violation),
}

impl Question {
    /// Asks anything of a machine; `None` when it is not up.
    pub(crate) fn drawn(world: &World, fleet: &Fleet, ledger: &Ledger, at: usize, chance: &Chance) -> Option<Self> {
        let rest = if chance.percent(10) { chance.time(REST.0, REST.1) } else { Duration::ZERO };
        Self::ask(world, fleet, ledger, at, Kind::drawn(chance), rest)
    }

    /// Asks when all is well.
    pub(crate) fn last(world: &World, fleet: &Fleet, ledger: &Ledger, at: usize, kind: Kind) -> Option<Self> {
        let question = Self::ask(world, fleet, ledger, at, kind, Duration::ZERO)?;
        Some(Self { is_last: true, ..question })
    }

    /// Asks a machine, and rests between what is read; `None` when it is not up.
    fn ask(world: &World, fleet: &Fleet, ledger: &Ledger, at: usize, kind: Kind, rest: Duration) -> Option<Self> {
        let machine = fleet.machines.get(at)?;
        let own = Arc::clone(machine.scatter()?);
        let (tell, told) = oneshot::channel();
        let due = ledger.due_but_of(&fleet.unheard_of_by(at));
        if fleet.asks_apart {
            let scatters: Vec<_> = fleet.machines.iter().filter_map(Machine::scatter).map(Arc::clone).collect();
            let tasks = world.tasks();
            world.spawn(async move { drop(tell.send(apart(&scatters, &tasks, kind).await)) });
        } else {
            let tasks = machine.host.tasks();
            machine.host.spawn(async move { drop(tell.send(one(&own, &tasks, kind, rest).await)) });
        }
        Some(Self { asked_of: at, asked_at: world.now(), kind, due, is_last: false, told })
    }

    /// Whether it is answered.
    pub(crate) fn look(mut self) -> Standing {
        match self.told.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => Standing::Open(self),
            Err(oneshot::error::TryRecvError::Closed) => Standing::Void,
            Ok(Ok((content, stats))) => {
                let Self { asked_of, asked_at, kind, due, is_last, .. } = self;
                Standing::Answered(Answer { asked_of, asked_at, kind, due, is_last, content, stats })
            }
            Ok(Err(error)) => Standing::Wrong(Violation::Unanswered(format!("a question: {error}"))),
        }
    }
}

fn request(kind: Kind) -> Request {
    match kind {
        Kind::Records(order, limit) => Request { order, limit, ..Request::new(Expr::All, Millis(0), Millis::MAX) },
        Kind::Count => Request::new(Expr::All, Millis(0), Millis::MAX),
        Kind::Histogram => Request::new(Expr::All, FROM, TO),
    }
}

async fn one(
    scatter: &Arc<Scatter>,
    tasks: &Arc<dyn Tasks>,
    kind: Kind,
    rest: Duration,
) -> Result<(Content, Stats), RequestError> {
    let request = request(kind);
    match kind {
        Kind::Records(..) => {
            let (mut answer, mut found, mut rests) = (scatter.search(&request)?, Vec::new(), 0..RESTS);
            loop {
                let some = answer.next().await;
                if some.is_empty() {
                    return Ok((Content::Records(found), answer.stats()));
                }
                let records = some.iter().flat_map(Stretch::records);
                found.extend(records.map(|record| (record.id, String::from_utf8_lossy(record.text).into())));
                if !rest.is_zero() && rests.next().is_some() {
                    tasks.sleep(rest).await;
                }
            }
        }
        Kind::Count => {
            let (count, stats) = scatter.count(&request).await?;
            Ok((Content::Count(count), stats))
        }
        Kind::Histogram => {
            let division = Division { buckets: STRETCHES, by_level: false };
            let (histogram, stats) = scatter.histogram(&request, division, &mut |_, _| {}).await?;
            let some = |bucket: &Bucket| bucket.count > 0;
            Ok((Content::Stretches(histogram.buckets.into_iter().filter(some).collect()), stats))
        }
    }
}

/// Asks each node for its own alone, and adds up what they say: as if nothing were merged.
async fn apart(
    scatters: &[Arc<Scatter>],
    tasks: &Arc<dyn Tasks>,
    kind: Kind,
) -> Result<(Content, Stats), RequestError> {
    let mut sum: Option<(Content, Stats)> = None;
    for scatter in scatters {
        let (content, stats) = one(scatter, tasks, kind, Duration::ZERO).await?;
        match &mut sum {
            Some((all, told)) => {
                all.add(content);
                told.nodes.incomplete |= stats.nodes.incomplete;
                told.damaged.extend(stats.damaged);
            }
            none => *none = Some((content, stats)),
        }
    }
    let (mut content, stats) = sum.ok_or(RequestError::Cancelled)?;
    if let (Content::Records(found), Kind::Records(order, _)) = (&mut content, kind) {
        found.sort();
        if order == Order::Descending {
            found.reverse();
        }
    }
    Ok((content, stats))
}
