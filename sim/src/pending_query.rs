//! Queries to any node, also one that is partitioned, paused or just started. The node asks all nodes over the network.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Tasks;
use bucksaw_env::sim::World;
use bucksaw_query::{
    Answers, Bucket, Bucketing, Grouping, Order, QueryStats, RecordRef, RecordSink, Request, RequestError, SinkClosed,
};
use bucksaw_record::{Expr, Id, Millis};
use tokio::sync::oneshot;

use crate::checked_answer::{AnswerContent, CheckedAnswer};
use crate::injected_bug::InjectedBug;
use crate::injected_bug::answers::AnswerBug;
use crate::ledger::{RecordLedger, Violation};
use crate::machine::Machine;
use crate::query_kind::QueryKind;
use crate::record_attributes::checked_line;
use crate::rng::SeededRng;
use crate::sim_cluster::SimCluster;

/// The pauses of a slow reader, and their maximum number; then it reads without pauses.
const READ_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(3));
const READ_PAUSES_MAX: usize = 5;

/// The time range of a histogram, which contains every wall clock of a run, in buckets of 86 s. The ids of keyed batches follow
/// the clock of their node, which may be days off.
const HISTOGRAM_FROM: Millis = Millis(1_767_225_600_000 - 4 * 24 * 3_600_000);
const HISTOGRAM_TO: Millis = Millis(HISTOGRAM_FROM.0 + 10 * 24 * 3_600_000);
const BUCKETS: usize = 10_000;

/// A query without answer yet.
pub(crate) struct PendingQuery {
    machine: usize,
    asked_at: Duration,
    kind: QueryKind,
    /// The records that a complete answer must have.
    required: BTreeSet<Id>,
    /// Erased records before this time must not be in the answer.
    erased_before: Option<Millis>,
    /// Asked in a healthy cluster, so the answer must be complete.
    is_final: bool,
    reply: oneshot::Receiver<Result<(AnswerContent, QueryStats), RequestError>>,
}

/// The state of a query.
pub(crate) enum QueryStatus {
    Pending(PendingQuery),
    /// The node has ended.
    Cancelled,
    Answered(CheckedAnswer),
    Failed(Violation),
}

impl PendingQuery {
    /// Sends a random query to a machine; `None` if it is down.
    pub(crate) fn random(
        world: &World,
        cluster: &SimCluster,
        ledger: &RecordLedger,
        at: usize,
        rng: &SeededRng,
    ) -> Option<Self> {
        let pause = if rng.percent(10) { rng.duration(READ_PAUSE.0, READ_PAUSE.1) } else { Duration::ZERO };
        Self::send(world, cluster, ledger, at, QueryKind::random(rng), pause)
    }

    /// Sends a query in a healthy cluster.
    pub(crate) fn final_check(
        world: &World,
        cluster: &SimCluster,
        ledger: &RecordLedger,
        at: usize,
        kind: QueryKind,
    ) -> Option<Self> {
        let query = Self::send(world, cluster, ledger, at, kind, Duration::ZERO)?;
        Some(Self { is_final: true, ..query })
    }

    /// Sends a query to a machine, whose reader pauses; `None` if the machine is down.
    fn send(
        world: &World,
        cluster: &SimCluster,
        ledger: &RecordLedger,
        at: usize,
        kind: QueryKind,
        pause: Duration,
    ) -> Option<Self> {
        let machine = cluster.machines.get(at)?;
        let own = machine.answers()?;
        let (sender, reply) = oneshot::channel();
        let required = ledger.required_except_from(&cluster.unknown_to(at));
        let answer_bug = AnswerBug::of(cluster);
        if cluster.bug == Some(InjectedBug::NotMerged) {
            let all: Vec<_> = cluster.machines.iter().filter_map(Machine::answers).collect();
            let tasks = world.tasks();
            world.spawn(async move { drop(sender.send(query_each_unmerged(&all, &tasks, kind).await)) });
        } else {
            let tasks = machine.host.tasks();
            machine.host.spawn(async move {
                let sent_kind = answer_bug.as_ref().map_or(kind, |bug| bug.sent_kind(kind));
                let mut reply = query_one(&own, &tasks, sent_kind, pause).await;
                if let (Some(bug), Ok((content, _))) = (&answer_bug, &mut reply) {
                    bug.apply(kind, content);
                }
                drop(sender.send(reply));
            });
        }
        let erased_before = cluster.erased_before.get(&machine.id()).copied();
        let asked_at = world.now();
        Some(Self { machine: at, asked_at, kind, required, erased_before, is_final: false, reply })
    }

    /// The current state.
    pub(crate) fn poll(mut self) -> QueryStatus {
        match self.reply.try_recv() {
            Err(oneshot::error::TryRecvError::Empty) => QueryStatus::Pending(self),
            Err(oneshot::error::TryRecvError::Closed) => QueryStatus::Cancelled,
            Ok(Ok((content, stats))) => {
                let Self { machine, asked_at, kind, required, erased_before, is_final, .. } = self;
                let answer =
                    CheckedAnswer { machine, asked_at, kind, required, erased_before, is_final, content, stats };
                QueryStatus::Answered(answer)
            }
            Ok(Err(error)) => QueryStatus::Failed(Violation::Unanswered(format!("a query failed: {error}"))),
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

/// Reads records with pauses at the beginning.
struct PausingReader {
    records: Vec<(Id, Arc<str>)>,
    pause: Duration,
    pauses: std::ops::Range<usize>,
    tasks: Arc<dyn Tasks>,
}

impl RecordSink for PausingReader {
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        self.records.push((record.id, checked_line(record.view)));
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
    pause: Duration,
) -> Result<(AnswerContent, QueryStats), RequestError> {
    let request = request(kind);
    match kind {
        QueryKind::Records(..) => {
            let (records, pauses, tasks) = (Vec::new(), 0..READ_PAUSES_MAX, Arc::clone(tasks));
            let reader = PausingReader { records, pause, pauses, tasks };
            let (reader, stats) = answers.search(request)?.write_to(reader).await.ok_or(RequestError::Cancelled)?;
            Ok((AnswerContent::Records(reader.records), stats))
        }
        QueryKind::Count(_) => {
            let (count, stats) = answers.count(request, ()).await?;
            Ok((AnswerContent::Count(count), stats))
        }
        QueryKind::Histogram => {
            let bucketing = Bucketing { buckets: BUCKETS, grouping: Grouping::None };
            let (histogram, stats) = answers.histogram(request, bucketing, (), |_, _| {}).await?;
            let is_nonempty = |bucket: &Bucket| bucket.count > 0;
            Ok((AnswerContent::Buckets(histogram.buckets.into_iter().filter(is_nonempty).collect()), stats))
        }
    }
}

/// Queries each node for its own records and concatenates the answers, without a merge.
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
