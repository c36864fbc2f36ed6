//! A table of ClickHouse, and the calls of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Tasks, lock};
use bucksaw_store::RangeError;

use crate::client::{DatabaseClient, DatabaseReply};
use crate::config::Config;
use crate::error::ClickHouseError;
use crate::metrics::Metrics;
use crate::schema::{self, Schema};
use crate::statement::Statement;

/// A table, and what its calls have shown.
#[derive(Debug)]
pub(crate) struct Database {
    client: DatabaseClient,
    config: Arc<Config>,
    metrics: Metrics,
    /// `None` until the table was found or created.
    schema: Mutex<Option<Schema>>,
}

impl Database {
    pub(crate) fn new(config: Config, tasks: Arc<dyn Tasks>, metrics: Metrics) -> Self {
        let config = Arc::new(config);
        Self { client: DatabaseClient::new(Arc::clone(&config), tasks), config, metrics, schema: Mutex::default() }
    }

    pub(crate) fn client(&self) -> &DatabaseClient {
        &self.client
    }

    /// The identity of the table, once it was found or created.
    pub(crate) fn identity(&self) -> Option<String> {
        lock(&self.schema).as_ref().map(|schema| schema.identity.clone())
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The table, which is created or migrated first if no call has done so yet.
    pub(crate) fn prepare(&self) -> Result<Schema, ClickHouseError> {
        if let Some(schema) = &*lock(&self.schema) {
            return Ok(schema.clone());
        }
        // Two threads may do it at once: each statement may be repeated.
        let schema = schema::prepare(&self.client, &self.config)?;
        Ok(lock(&self.schema).insert(schema).clone())
    }

    /// Starts a statement of a query.
    pub(crate) fn start(&self, statement: Statement) -> Result<DatabaseReply, ClickHouseError> {
        self.metrics.reads.inc();
        self.start_within(statement, self.config.idle_timeout)
    }

    pub(crate) fn start_within(&self, statement: Statement, idle: Duration) -> Result<DatabaseReply, ClickHouseError> {
        self.prepare()?;
        Ok(self.client.start(statement, idle))
    }

    /// What failed, in a sentence that names the database.
    pub(crate) fn sentence(&self, what: &str, error: &ClickHouseError) -> String {
        format!("{what} {}: {error}", self.config.url)
    }

    pub(crate) fn range_error(&self, error: &ClickHouseError) -> RangeError {
        self.metrics.failed_reads.inc();
        RangeError(format!("a part of {} cannot be read: {error}", self.config.url))
    }
}
