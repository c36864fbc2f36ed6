//! Questions of people: whichever node is asked, also one that is cut off, stands still or has just begun, asks all nodes
//! over the network, as the program does.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Tasks;
use bucksaw_env::sim::World;
use bucksaw_query::{
    Answers, Bucket, Bucketing, Order, QueryStats, RecordRef, RecordSink, Request, RequestError, SinkClosed,
};
use bucksaw_record::{Expr, Id, Millis};
use tokio::sync::oneshot;

use crate::checked_answer::{AnswerContent, CheckedAnswer};
use crate::injected_bug::InjectedBug;
use crate::injected_bug::answers::AnswerBug;
use crate::ledger::{RecordLedger, Violation};
use crate::machine::Machine;
use crate::query_filter::QueryFilter;
use crate::rng::SeededRng;
use crate::sim_cluster::SimCluster;

/// The highest limit of a random query, in records.
const LIMIT_MAX: usize = 200;

/// The limit of the newest-first queries of the final check, in records.
const FINAL_LIMIT: u64 = 20;

/// How long a reader who is slow rests between what he reads, and how often; then he reads on quickly.
const READ_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(3));
const READ_PAUSES_MAX: usize = 5;

/// The time of a histogram: so much that no wall clock of a run is beyond it, in stretches of a minute and a half. A node whose
/// clock is days behind numbers batches with keys by it.
const HISTOGRAM_FROM: Millis = Millis(1_767_225_600_000 - 4 * 24 * 3_600_000);
const HISTOGRAM_TO: Millis = Millis(HISTOGRAM_FROM.0 + 10 * 24 * 3_600_000);
const BUCKETS: usize = 10_000;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryKind {
    /// The matching records in an order, up to a limit.
    Records(Order, Option<u64>, QueryFilter),
    /// The number of matching records.
    Count(QueryFilter),
    /// The number of records in each bucket of time.
    Histogram,
}

impl QueryKind {
    /// The queries of the final check.
    pub(crate) const FINAL: [Self; 8] = [
        Self::Records(Order::Ascending, None, QueryFilter::ALL),
        Self::Records(Order::Descending, None, QueryFilter::ALL),
        Self::Records(Order::Descending, Some(FINAL_LIMIT), QueryFilter::ALL),
        Self::Records(Order::Ascending, None, QueryFilter::LITERAL),
        Self::Records(Order::Descending, Some(FINAL_LIMIT), QueryFilter::REGEX),
        Self::Count(QueryFilter::ALL),
        Self::Count(QueryFilter::LITERAL),
        Self::Histogram,
    ];

    fn random(rng: &SeededRng) -> Self {
        let order = if rng.percent(50) { Order::Ascending } else { Order::Descending };
        let filter = QueryFilter::random(rng);
        match rng.below(6) {
            0 => Self::Count(filter),
            1 => Self::Histogram,
            2 | 3 => Self::Records(order, Some(rng.between(1, LIMIT_MAX) as u64), filter),
            _ => Self::Records(order, None, filter),
        }
    }
}

/// A question that was asked and is not answered yet.
pub(crate) struct PendingQuery {
    machine: usize,
    asked_at: Duration,
    kind: QueryKind,
    /// What must be in a complete answer.
    required: BTreeSet<Id>,
    /// All is well, so that it must be complete.
    is_final: bool,
    reply: oneshot::Receiver<Result<(AnswerContent, QueryStats), RequestError>>,
}

/// How a question stands.
pub(crate) enum QueryStatus {
    Pending(PendingQuery),
    /// Whoever was asked is no more.
    Cancelled,
    Answered(CheckedAnswer),
    Failed(Violation),
}

impl PendingQuery {
    /// Asks anything of a machine; `None` when it is not up.
    pub(crate) fn random(
        world: &World,
        fleet: &SimCluster,
        ledger: &RecordLedger,
        at: usize,
        rng: &SeededRng,
    ) -> Option<Self> {
        let rest = if rng.percent(10) { rng.duration(READ_PAUSE.0, READ_PAUSE.1) } else { Duration::ZERO };
        Self::send(world, fleet, ledger, at, QueryKind::random(rng), rest)
    }

    /// Asks when all is well.
    pub(crate) fn final_check(
        world: &World,
        fleet: &SimCluster,
        ledger: &RecordLedger,
        at: usize,
        kind: QueryKind,
    ) -> Option<Self> {
        let question = Self::send(world, fleet, ledger, at, kind, Duration::ZERO)?;
        Some(Self { is_final: true, ..question })
    }

    /// Asks a machine, and rests between what is read; `None` when it is not up.
    fn send(
        world: &World,
        fleet: &SimCluster,
        ledger: &RecordLedger,
        at: usize,
        kind: QueryKind,
        rest: Duration,
    ) -> Option<Self> {
        let machine = fleet.machines.get(at)?;
        let own = machine.answers()?;
        let (tell, told) = oneshot::channel();
        let due = ledger.required_except_from(&fleet.unknown_to(at));
        let answer_bug = AnswerBug::of(fleet);
        if fleet.bug == Some(InjectedBug::NotMerged) {
            let all: Vec<_> = fleet.machines.iter().filter_map(Machine::answers).collect();
            let tasks = world.tasks();
            world.spawn(async move { drop(tell.send(query_each_unmerged(&all, &tasks, kind).await)) });
        } else {
            let tasks = machine.host.tasks();
            machine.host.spawn(async move {
                let sent_kind = answer_bug.as_ref().map_or(kind, |bug| bug.sent_kind(kind));
                let mut reply = query_one(&own, &tasks, sent_kind, rest).await;
                if let (Some(bug), Ok((content, _))) = (&answer_bug, &mut reply) {
                    bug.apply(kind, content);
                }
                drop(tell.send(reply));
            });
        }
        Some(Self { machine: at, asked_at: world.now(), kind, required: due, is_final: false, reply: told })
    }

    /// Whether it is answered.
    pub(crate) fn poll(mut self) -> QueryStatus {
        match self.reply.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => QueryStatus::Pending(self),
            Err(oneshot::error::TryRecvError::Closed) => QueryStatus::Cancelled,
            Ok(Ok((content, stats))) => {
                let Self { machine: asked_of, asked_at, kind, required: due, is_final: is_last, .. } = self;
                QueryStatus::Answered(CheckedAnswer {
                    machine: asked_of,
                    asked_at,
                    kind,
                    required: due,
                    is_final: is_last,
                    content,
                    stats,
                })
            }
            Ok(Err(error)) => QueryStatus::Failed(Violation::Unanswered(format!("a question: {error}"))),
        }
    }
}

fn request(kind: QueryKind) -> Request {
    match kind {
        QueryKind::Records(order, limit, filter) => {
            Request { order, limit, ..Request::new(filter.expression(), Millis(0), Millis::MAX) }
        }
        QueryKind::Count(filter) => Request::new(filter.expression(), Millis(0), Millis::MAX),
        QueryKind::Histogram => Request::new(Expr::All, HISTOGRAM_FROM, HISTOGRAM_TO),
    }
}

/// Reads records with pauses, the first few times.
struct PausingReader {
    records: Vec<(Id, Arc<str>)>,
    pause: Duration,
    pauses: std::ops::Range<usize>,
    tasks: Arc<dyn Tasks>,
}

impl RecordSink for PausingReader {
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        self.records.push((record.id, String::from_utf8_lossy(record.text).into()));
        ControlFlow::Continue(())
    }

    async fn flush(&mut self) -> Result<(), SinkClosed> {
        if !self.pause.is_zero() && self.pauses.next().is_some() {
            self.tasks.sleep(self.pause).await;
        }
        Ok(())
    }

    /// A simulated thread cannot block.
    fn flush_blocking(&mut self, _: &mut dyn FnMut()) -> Result<(), SinkClosed> {
        Ok(())
    }

    fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }
}

async fn query_one(
    answers: &Answers,
    tasks: &Arc<dyn Tasks>,
    kind: QueryKind,
    rest: Duration,
) -> Result<(AnswerContent, QueryStats), RequestError> {
    let request = request(kind);
    match kind {
        QueryKind::Records(..) => {
            let (records, pauses, tasks) = (Vec::new(), 0..READ_PAUSES_MAX, Arc::clone(tasks));
            let reader = PausingReader { records, pause: rest, pauses, tasks };
            let (reader, stats) = answers.search(request)?.write_to(reader).await.ok_or(RequestError::Cancelled)?;
            Ok((AnswerContent::Records(reader.records), stats))
        }
        QueryKind::Count(_) => {
            let (count, stats) = answers.count(request, ()).await?;
            Ok((AnswerContent::Count(count), stats))
        }
        QueryKind::Histogram => {
            let division = Bucketing { buckets: BUCKETS, by_level: false };
            let (histogram, stats) = answers.histogram(request, division, (), |_, _| {}).await?;
            let some = |bucket: &Bucket| bucket.count > 0;
            Ok((AnswerContent::Buckets(histogram.buckets.into_iter().filter(some).collect()), stats))
        }
    }
}

/// Asks each node for its own alone, and adds up what they say: as if nothing were merged.
async fn query_each_unmerged(
    all: &[Answers],
    tasks: &Arc<dyn Tasks>,
    kind: QueryKind,
) -> Result<(AnswerContent, QueryStats), RequestError> {
    let mut sum: Option<(AnswerContent, QueryStats)> = None;
    for answers in all {
        let (content, stats) = query_one(answers, tasks, kind, Duration::ZERO).await?;
        match &mut sum {
            Some((sum, merged)) => {
                sum.add(content);
                merged.nodes.is_incomplete |= stats.nodes.is_incomplete;
                merged.damaged.extend(stats.damaged);
            }
            none => *none = Some((content, stats)),
        }
    }
    let (mut content, stats) = sum.ok_or(RequestError::Cancelled)?;
    if let (AnswerContent::Records(found), QueryKind::Records(order, ..)) = (&mut content, kind) {
        found.sort();
        if order == Order::Descending {
            found.reverse();
        }
    }
    Ok((content, stats))
}
