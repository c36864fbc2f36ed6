//! ClickHouse as a [`Store`].

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Env, LogLimits, Tasks, lock, log_limited, set_gauge, to_millis};
use bucksaw_ingest::{FetchThreshold, Queue};
use bucksaw_record::{Id, Millis};
use bucksaw_store::{
    BlockSelector, DatabaseStatus, Foreground, RecordRange, Selection, Store, StoreBatch, StoreError, StoreStatus,
    StoredBatch,
};
use tracing::info;

use crate::config::Config;
use crate::database::Database;
use crate::error::ClickHouseError;
use crate::filter::SqlFilter;
use crate::health::ServerHealth;
use crate::insert::Inserter;
use crate::metrics::Metrics;
use crate::parameters::Parameters;
use crate::range::TableRange;
use crate::row_decoder::RowFields;
use crate::slices::{self, Slice};
use crate::statement::Statement;

/// Queue segments that are remembered as stored. A queue keeps committed segments for seconds.
const STORED_MAX: usize = 10_000;

/// How often the sizes of the table are read.
const SIZES_PERIOD: Duration = Duration::from_secs(5);

/// The store over a table of ClickHouse.
#[derive(Debug)]
pub struct ClickHouseStore {
    database: Arc<Database>,
    env: Env,
    foreground: Arc<Foreground>,
    health: ServerHealth,
    stored: Mutex<StoredSegmentIds>,
    sizes: Mutex<TableSizes>,
    log_limits: LogLimits,
}

/// The queue segments that were stored last.
#[derive(Debug, Default)]
struct StoredSegmentIds {
    order: VecDeque<Id>,
    ids: HashSet<Id>,
}

/// The sizes of the table as last read.
#[derive(Clone, Copy, Debug, Default)]
struct TableSizes {
    read_at: Option<Duration>,
    parts: u64,
    rows: u64,
    text_bytes: u64,
    stored_bytes: u64,
    oldest: Option<Millis>,
    newest: Option<Millis>,
}

impl ClickHouseStore {
    /// A store over the table of `config`, which is created if it is missing.
    ///
    /// While ClickHouse cannot be reached the store opens too, and the queue keeps the records.
    ///
    /// # Errors
    /// [`ClickHouseError`] if someone has to change something first, such as a wrong password. Blocks until ClickHouse answers
    /// or the time limit for connecting is over.
    pub fn open(env: Env, tasks: Arc<dyn Tasks>, config: Config, metrics: Metrics) -> Result<Self, ClickHouseError> {
        let database = Arc::new(Database::new(config, tasks, metrics));
        let store = Self {
            database,
            foreground: Foreground::new(Arc::clone(&env.clock)),
            health: ServerHealth::default(),
            stored: Mutex::default(),
            sizes: Mutex::default(),
            log_limits: LogLimits::new(Arc::clone(&env.clock)),
            env,
        };
        match store.database.prepare() {
            Ok(_) => store.read_sizes(),
            Err(error) if error.is_transient() => {
                store.fail(store.database.sentence("cannot reach", &error));
            }
            Err(error) => return Err(error),
        }
        Ok(store)
    }

    fn fail(&self, reason: String) {
        log_limited!(self.log_limits, warn, reason, "ClickHouse is away: the queue keeps the records");
        self.health.fail(reason, Millis(self.env.clock.unix_ms()), self.env.clock.uptime());
        set_gauge(&self.database.metrics().away, 1);
    }

    fn succeed(&self) {
        if self.health.succeed() {
            info!(database = %self.database.config().url, "ClickHouse is back");
        }
        set_gauge(&self.database.metrics().away, 0);
    }

    fn insert(&self, batch: &StoreBatch<'_>) -> Result<(), StoreError> {
        let mut inserter = Inserter::new(&self.database);
        batch.segments.iter().try_for_each(|view| inserter.add_segment(view))?;
        inserter.finish()
    }

    /// Ends the pause when the server answers again.
    fn probe(&self) {
        if !self.health.is_failing() || !self.health.is_paused(self.env.clock.uptime()) {
            return;
        }
        let is_away = !self.health.failure().reason.is_some_and(|reason| reason.contains("ClickHouse error"));
        // A server that refuses inserts answers all the time.
        if is_away && self.database.client().ask(Statement::question("SELECT 1", Parameters::default())).is_ok() {
            self.health.end_pause();
        }
    }

    fn read_sizes(&self) {
        let uptime = self.env.clock.uptime();
        let Some(read) = self.ask_sizes() else { return };
        *lock(&self.sizes) = TableSizes { read_at: Some(uptime), ..read };
    }

    /// `None` if the table cannot be asked, as for a user without rights on system tables.
    fn ask_sizes(&self) -> Option<TableSizes> {
        let (mut parameters, url) = (Parameters::default(), &self.database.config().url);
        let database = parameters.text(url.database.as_bytes())?;
        let table = parameters.text(url.table.as_bytes())?;
        let sql = format!(
            "SELECT count(), sum(rows), sum(data_uncompressed_bytes), sum(bytes_on_disk) FROM system.parts \
             WHERE active AND database = {database} AND table = {table} FORMAT RowBinary"
        );
        let answer = self.database.client().ask(Statement::question(sql, parameters)).ok()?;
        let mut fields = RowFields(&answer);
        let (parts, rows, text_bytes, stored_bytes) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
        let sql = format!(
            "SELECT min(id), max(id) FROM mergeTreeIndex('{}', '{}') WHERE id > 0 FORMAT RowBinary",
            url.database, url.table
        );
        let bounds = self.database.client().ask(Statement::question(sql, Parameters::default())).unwrap_or_default();
        let mut fields = RowFields(&bounds);
        let mut time = || fields.u128().filter(|id| *id > 0).map(|id| Id::from_bits(id).time());
        let (oldest, newest) = (time(), time());
        Some(TableSizes { read_at: None, parts, rows, text_bytes, stored_bytes, oldest, newest })
    }

    fn slices(&self, (from, to): (Id, Id)) -> Vec<Slice> {
        let whole = vec![Slice { from, to, rows: 1 }];
        if self.database.prepare().is_err() {
            // The read of the slice fails too, and reports why.
            return whole;
        }
        // The index cannot be read of a table of the engine Distributed, or without the right to.
        slices::plan(self.database.client(), self.database.config(), from, to).unwrap_or(whole)
    }
}

impl Store for ClickHouseStore {
    fn fetch_threshold(&self) -> FetchThreshold {
        let config = self.database.config();
        FetchThreshold { text_bytes_min: config.batch_bytes_min, age_min: config.batch_age }
    }

    fn batch_bytes_max(&self) -> u64 {
        self.database.config().batch_bytes_max.max(1)
    }

    fn append(&self, batch: &StoreBatch<'_>) -> Result<StoredBatch, StoreError> {
        if let Err(error) = self.insert(batch) {
            self.database.metrics().failed_batches.inc();
            if let StoreError::Database(reason) = &error {
                self.fail(reason.clone());
            }
            return Err(error);
        }
        self.succeed();
        lock(&self.stored).add(batch.segments.iter().map(|view| view.id));
        // Before the queue commits, so that the status counts each record.
        self.read_sizes();
        let text_bytes = batch.segments.iter().map(|view| view.reach.text_bytes).sum();
        Ok(StoredBatch { text_bytes, segment: None })
    }

    fn select(&self, filter: &BlockSelector<'_>, queued: &mut HashSet<Id>) -> Selection {
        {
            let stored = lock(&self.stored);
            queued.retain(|id| !stored.ids.contains(id));
        }
        let (from, to) = filter.ids;
        if from >= to {
            return Selection::default();
        }
        let condition = Arc::new(SqlFilter::new(filter.expr, filter.stream, filter.scope));
        let since = self.answers_since().map(|since| since.0);
        let range = |slice: Slice| -> Arc<dyn RecordRange> {
            Arc::new(TableRange::new(Arc::clone(&self.database), slice, Arc::clone(&condition), since))
        };
        let ranges: Vec<_> = self.slices(filter.ids).into_iter().map(range).collect();
        Selection { segments_read: ranges.len() as u64, ranges, ..Selection::default() }
    }

    fn answers_since(&self) -> Option<Millis> {
        let age = self.database.config().retention_age?;
        Some(Millis(self.env.clock.unix_ms()).saturating_sub(to_millis(age)))
    }

    /// ClickHouse removes records by the rule of the table. Here the state of the server is checked.
    fn retain(&self, _queue: &Queue) {
        self.probe();
        let uptime = self.env.clock.uptime();
        let is_due = |read: Duration| uptime.saturating_sub(read) >= SIZES_PERIOD;
        let read_at = lock(&self.sizes).read_at;
        if !self.health.is_failing() && read_at.is_none_or(is_due) {
            self.read_sizes();
        }
    }

    fn maintain(&self, _queue: &Queue, _is_stopped: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn foreground(&self) -> &Arc<Foreground> {
        &self.foreground
    }

    fn status(&self) -> StoreStatus {
        let (sizes, failure) = (*lock(&self.sizes), self.health.failure());
        let database = DatabaseStatus {
            address: self.database.config().url.to_string(),
            failure: failure.reason,
            failing_since: failure.since,
        };
        StoreStatus {
            segments: usize::try_from(sizes.parts).unwrap_or(usize::MAX),
            records: sizes.rows,
            text_bytes: sizes.text_bytes,
            stored_bytes: sizes.stored_bytes,
            oldest: sizes.oldest,
            newest: sizes.newest,
            database: Some(database),
            ..StoreStatus::default()
        }
    }

    fn is_paused(&self) -> bool {
        self.health.is_paused(self.env.clock.uptime())
    }

    fn database_id(&self) -> Option<String> {
        self.database.identity()
    }
}

impl StoredSegmentIds {
    fn add(&mut self, ids: impl Iterator<Item = Id>) {
        for id in ids {
            if self.ids.insert(id) {
                self.order.push_back(id);
            }
        }
        while self.order.len() > STORED_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.ids.remove(&oldest);
            }
        }
    }
}
