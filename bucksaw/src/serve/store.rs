//! Opens ClickHouse as the store of a node, or beside its segments.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bucksaw_clickhouse::{ClickHouseError, ClickHouseSink, ClickHouseStore, DatabaseUrl, Password};
use bucksaw_env::{Env, Tasks};
use bucksaw_tls::{ClientFiles, ClientTls};

use super::memory::MemoryPlan;
use super::settings;
use crate::args::{Role, ServeArgs};
use crate::small_files;
use crate::values::StoreLocation;

/// The variable with the password, for those who give no file.
const PASSWORD_VARIABLE: &str = "BUCKSAW_DATABASE_PASSWORD";

/// Limits of the bytes of one insert. More take fewer parts of the table, and as many as connections are in memory.
const INSERT_BYTES_MIN: u64 = 1 << 20;
const INSERT_BYTES_MAX: u64 = 8 << 20;

/// Refuses settings that only segments have.
pub(super) fn check(args: &ServeArgs) -> anyhow::Result<()> {
    if args.clickhouse_sink.is_some() && !args.roles.contains(&Role::Store) {
        bail!("--clickhouse-sink: only nodes with the role store send records to it");
    }
    let of_store = match &args.store {
        StoreLocation::ClickHouse(url) => Some(url),
        StoreLocation::Segments => None,
    };
    if args.database_ca.is_some() && !of_store.into_iter().chain(&args.clickhouse_sink).any(|url| url.is_tls) {
        bail!("--database-ca: connections to ClickHouse use TLS with clickhouses:// in the URL");
    }
    let StoreLocation::ClickHouse(_) = &args.store else { return Ok(()) };
    if args.clickhouse_sink.is_some() {
        bail!("--clickhouse-sink: --store has all records in ClickHouse already");
    }
    if args.retention_bytes.0.is_some() {
        bail!("--retention-bytes: a store in ClickHouse keeps records by age alone: use --retention-age");
    }
    if !args.retention_label.is_empty() {
        bail!("--retention-label: a store in ClickHouse keeps all records for one age: use --retention-age");
    }
    if args.replication_factor > 1 {
        bail!("--replication-factor: ClickHouse replicates by itself: use the option engine of --store");
    }
    Ok(())
}

/// The store in ClickHouse, if the arguments name one.
pub(super) fn clickhouse(
    args: &ServeArgs,
    plan: &MemoryPlan,
    env: &Env,
    tasks: Arc<dyn Tasks>,
    metrics: bucksaw_clickhouse::Metrics,
) -> anyhow::Result<Option<Arc<ClickHouseStore>>> {
    let StoreLocation::ClickHouse(url) = &args.store else { return Ok(None) };
    let config = config(args, plan, url, args.retention_age.0, env)?;
    let store = ClickHouseStore::open(env.clone(), tasks, config, metrics);
    Ok(Some(Arc::new(store.map_err(|error| explain(error, "--store", url))?)))
}

/// ClickHouse beside the segments, if the arguments name it. What waits is in `clickhouse` of the data directory.
pub(super) fn sink(
    args: &ServeArgs,
    plan: &MemoryPlan,
    (env, data_dir): (&Env, &Path),
    tasks: Arc<dyn Tasks>,
    metrics: bucksaw_clickhouse::Metrics,
) -> anyhow::Result<Option<Arc<ClickHouseSink>>> {
    let Some(url) = &args.clickhouse_sink else { return Ok(None) };
    let config = config(args, plan, url, None, env)?;
    let sink = ClickHouseSink::open(env.clone(), tasks, data_dir.join("clickhouse"), config, metrics);
    Ok(Some(Arc::new(sink.map_err(|error| explain(error, "--clickhouse-sink", url))?)))
}

fn config(
    args: &ServeArgs,
    plan: &MemoryPlan,
    url: &DatabaseUrl,
    retention_age: Option<Duration>,
    env: &Env,
) -> anyhow::Result<bucksaw_clickhouse::Config> {
    let password = password(args.database_password_file.as_deref(), env)?;
    let files = ClientFiles { ca: args.database_ca.clone(), ..ClientFiles::default() };
    let tls = url.is_tls.then(|| ClientTls::load(Arc::clone(&env.fs), files, &[])).transpose();
    let tls = tls.with_context(|| format!("{url}: cannot use TLS"))?;
    let each = plan.merge_input / (2 * url.connections as u64).max(1);
    Ok(bucksaw_clickhouse::Config {
        tls,
        // Shorter than a second is not possible in the rule of a table.
        retention_age: url.retention.or(retention_age).map(|age| age.max(Duration::from_secs(1))),
        insert_bytes: settings::bytes(each.clamp(INSERT_BYTES_MIN, INSERT_BYTES_MAX)),
        ..bucksaw_clickhouse::Config::new(url.clone(), password)
    })
}

fn password(file: Option<&Path>, env: &Env) -> anyhow::Result<Password> {
    let text = match file {
        Some(path) => {
            let shown = path.display();
            let bytes = small_files::read(&*env.fs, path)
                .with_context(|| format!("--database-password-file: cannot read {shown}"))?;
            String::from_utf8(bytes)
                .with_context(|| format!("--database-password-file {shown}: the password is not UTF-8"))?
        }
        None => std::env::var(PASSWORD_VARIABLE).unwrap_or_default(),
    };
    let text = text.trim_end_matches(['\r', '\n']);
    if text.contains(|char: char| !(' '..='~').contains(&char)) {
        bail!("the password of ClickHouse has characters other than printable ASCII, which HTTP cannot send");
    }
    Ok(Password::new(text.to_owned()))
}

fn explain(error: ClickHouseError, flag: &str, url: &DatabaseUrl) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("{flag} {url}"))
}
