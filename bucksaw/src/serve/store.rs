//! Opens the store of a node that does not store segments.
#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "reads the environment of the real process")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bucksaw_clickhouse::{ClickHouseError, ClickHouseStore, DatabaseUrl, Password};
use bucksaw_env::{Env, Tasks};

use super::memory::MemoryPlan;
use super::settings;
use crate::args::ServeArgs;
use crate::small_files;
use crate::values::StoreLocation;

/// The variable with the password, for those who give no file.
const PASSWORD_VARIABLE: &str = "BUCKSAW_CLICKHOUSE_PASSWORD";

/// Limits of the bytes of one insert. More take fewer parts of the table, and as many as connections are in memory.
const INSERT_BYTES_MIN: u64 = 1 << 20;
const INSERT_BYTES_MAX: u64 = 8 << 20;

/// Refuses settings that only segments have.
pub(super) fn check(args: &ServeArgs) -> anyhow::Result<()> {
    let StoreLocation::ClickHouse(_) = &args.store else { return Ok(()) };
    if args.retention_bytes.0.is_some() {
        bail!("--retention-bytes: a store in ClickHouse keeps records by age alone: use --retention-age");
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
    let config = config(args, plan, url.clone(), password(args.clickhouse_password_file.as_deref(), env)?);
    let store = ClickHouseStore::open(env.clone(), tasks, config, metrics);
    Ok(Some(Arc::new(store.map_err(|error| explain(error, url))?)))
}

fn config(args: &ServeArgs, plan: &MemoryPlan, url: DatabaseUrl, password: Password) -> bucksaw_clickhouse::Config {
    let each = plan.merge_input / (2 * url.connections as u64).max(1);
    bucksaw_clickhouse::Config {
        retention_age: args.retention_age.0.map(|age| age.max(Duration::from_secs(1))),
        insert_bytes: settings::bytes(each.clamp(INSERT_BYTES_MIN, INSERT_BYTES_MAX)),
        ..bucksaw_clickhouse::Config::new(url, password)
    }
}

fn password(file: Option<&Path>, env: &Env) -> anyhow::Result<Password> {
    let text = match file {
        Some(path) => {
            let shown = path.display();
            let bytes = small_files::read(&*env.fs, path)
                .with_context(|| format!("--clickhouse-password-file: cannot read {shown}"))?;
            String::from_utf8(bytes)
                .with_context(|| format!("--clickhouse-password-file {shown}: the password is not UTF-8"))?
        }
        None => std::env::var(PASSWORD_VARIABLE).unwrap_or_default(),
    };
    let text = text.trim_end_matches(['\r', '\n']);
    if text.contains(|char: char| !(' '..='~').contains(&char)) {
        bail!("the password of ClickHouse has characters other than printable ASCII, which HTTP cannot send");
    }
    Ok(Password::new(text.to_owned()))
}

fn explain(error: ClickHouseError, url: &DatabaseUrl) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("--store {url}"))
}
