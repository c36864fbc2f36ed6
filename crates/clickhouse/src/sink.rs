//! ClickHouse beside the segments of a node: what the store fetches from queues is also inserted there.
//!
//! ```text
//!   batch of queue segments ─► spool ─► segments ─► the queue commits
//!                                └► INSERT, when ClickHouse answers ─► removed from the spool
//! ```
//! The spool has the rows of whole queue segments, and each queue segment is fetched by one store. So compaction, replicas
//! and repair do not send anything twice.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Env, LogLimits, Tasks, log_limited, run_blocking, set_gauge, wait_for_stop};
use bucksaw_ingest::SegmentView;
use bucksaw_record::Millis;
use bucksaw_store::{BatchSink, SinkStatus, StoreError};
use tokio::sync::watch;
use tracing::info;

use crate::client::DatabaseReply;
use crate::config::Config;
use crate::database::Database;
use crate::error::ClickHouseError;
use crate::health::ServerHealth;
use crate::insert::INSERT_TIMEOUT;
use crate::metrics::Metrics;
use crate::pieces::{self, SegmentPiece};
use crate::spool::{Spool, SpooledPiece};
use crate::table::insert_into;

/// Pieces that are sent before the state is evaluated again.
const PIECES_MAX: usize = 64;

/// Pause while nothing waits, and the least one after a failure.
const PAUSE: Duration = Duration::from_millis(200);

/// Inserts what the store fetches from queues into a table of ClickHouse.
#[derive(Debug)]
pub struct ClickHouseSink {
    database: Database,
    env: Env,
    spool: Spool,
    health: ServerHealth,
    log_limits: LogLimits,
}

impl ClickHouseSink {
    /// A sink with its spool in `dir`. While ClickHouse cannot be reached it opens too.
    ///
    /// # Errors
    /// [`ClickHouseError`] if someone has to change something first, such as a wrong password, or if the directory cannot be
    /// used. Blocks until ClickHouse answers or the time limit for connecting is over.
    pub fn open(
        env: Env,
        tasks: Arc<dyn Tasks>,
        dir: PathBuf,
        config: Config,
        metrics: Metrics,
    ) -> Result<Self, ClickHouseError> {
        let spool = Spool::open(env.clone(), dir).map_err(ClickHouseError::Spool)?;
        let database = Database::new(config, tasks, metrics);
        let log_limits = LogLimits::new(Arc::clone(&env.clock));
        let sink = Self { database, env, spool, health: ServerHealth::default(), log_limits };
        match sink.database.prepare() {
            Err(error) if error.is_transient() => sink.fail(&error),
            prepared => _ = prepared?,
        }
        sink.update_metrics();
        Ok(sink)
    }

    /// Sends what waits, until `stopping`.
    pub async fn run(self: Arc<Self>, tasks: Arc<dyn Tasks>, mut stopping: watch::Receiver<bool>) {
        loop {
            let sink = Arc::clone(&self);
            let sent = run_blocking(&tasks, move || sink.send_waiting()).await;
            let pause = if sent == Some(PIECES_MAX) { Duration::ZERO } else { PAUSE };
            tokio::select! {
                biased;
                () = wait_for_stop(&mut stopping) => return,
                () = tasks.sleep(pause) => {}
            }
        }
    }

    /// Sends the oldest pieces, as many at a time as there are connections. Returns how many ClickHouse has taken.
    fn send_waiting(&self) -> usize {
        if self.health.is_paused(self.env.clock.uptime()) {
            return 0;
        }
        let waiting = self.spool.first(PIECES_MAX);
        if waiting.is_empty() {
            return 0;
        }
        let (mut running, mut sent) = (VecDeque::new(), 0);
        let mut result = Ok(());
        for piece in waiting {
            if running.len() >= self.database.config().url.connections {
                let finished = self.finish(running.pop_front(), &mut sent);
                result = result.and(finished);
            }
            // A server that refuses one piece may take others.
            if !matches!(&result, Ok(()) | Err(ClickHouseError::Refused { .. })) {
                break;
            }
            match self.spool.read(&piece) {
                Ok(rows) => {
                    let sql = insert_into(&self.database.config().url);
                    let insert = pieces::insert(&sql, &piece.token).with_compressed_data(rows);
                    match self.database.start_within(insert, INSERT_TIMEOUT) {
                        Ok(reply) => running.push_back((piece, reply)),
                        Err(error) => result = Err(error),
                    }
                }
                // Its key may be named again.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    result = Err(ClickHouseError::Spool(error));
                }
                Err(error) => self.put_aside(&piece, &error),
            }
        }
        while !running.is_empty() {
            let finished = self.finish(running.pop_front(), &mut sent);
            result = result.and(finished);
        }
        match result {
            Ok(()) if self.health.succeed() => info!(database = %self.database.config().url, "ClickHouse is back"),
            Ok(()) => {}
            Err(error) => self.fail(&error),
        }
        set_gauge(&self.database.metrics().away, u64::from(self.health.is_failing()));
        self.update_metrics();
        sent
    }

    fn finish(&self, oldest: Option<(SpooledPiece, DatabaseReply)>, sent: &mut usize) -> Result<(), ClickHouseError> {
        let Some((piece, reply)) = oldest else { return Ok(()) };
        reply.finish()?;
        let metrics = self.database.metrics();
        metrics.inserts.inc();
        metrics.inserted_records.inc_by(piece.records);
        *sent += 1;
        // A piece that stays is sent again, and ClickHouse drops it.
        self.spool.remove(&piece).map_err(ClickHouseError::Spool)
    }

    fn put_aside(&self, piece: &SpooledPiece, error: &io::Error) {
        let (path, records) = (self.spool.dir().join(&piece.name), piece.records);
        log_limited!(self.log_limits, error, path = %path.display(), records, %error, "cannot read records for ClickHouse: they are in the segments alone");
        self.database.metrics().damaged_pieces.inc();
        self.spool.put_aside(piece);
    }

    fn fail(&self, error: &ClickHouseError) {
        let reason = self.database.sentence("cannot send records to", error);
        log_limited!(self.log_limits, warn, reason, "ClickHouse is away: records wait on disk");
        self.health.fail(reason, Millis(self.env.clock.unix_ms()), self.env.clock.uptime());
        set_gauge(&self.database.metrics().away, 1);
    }

    fn update_metrics(&self) {
        let (pieces, bytes) = self.spool.size();
        set_gauge(&self.database.metrics().spooled_pieces, pieces);
        set_gauge(&self.database.metrics().spooled_bytes, bytes);
    }
}

impl BatchSink for ClickHouseSink {
    fn keep(&self, segments: &[SegmentView]) -> Result<(), StoreError> {
        let failure = |source| StoreError::Io { verb: "write to", path: self.spool.dir().to_owned(), source };
        let bytes_max = self.database.config().insert_bytes;
        let mut add = |piece: SegmentPiece| self.spool.add(&piece).map_err(failure);
        let added = segments.iter().try_for_each(|view| pieces::cut(view, bytes_max, &mut add));
        self.update_metrics();
        added.and_then(|()| self.spool.sync().map_err(failure))
    }

    fn status(&self) -> SinkStatus {
        let (failure, (pieces, bytes)) = (self.health.failure(), self.spool.size());
        SinkStatus {
            address: self.database.config().url.to_string(),
            failure: failure.reason,
            failing_since: failure.since,
            waiting_inserts: pieces,
            waiting_bytes: bytes,
            oldest_waiting: self.spool.oldest(),
        }
    }
}
