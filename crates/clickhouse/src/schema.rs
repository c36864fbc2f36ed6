//! Creates and migrates the table. Its comment has the version of the schema and the retention age.
//!
//! `docs/clickhouse.md` explains each choice.

use std::time::Duration;

use tracing::info;

use crate::client::DatabaseClient;
use crate::config::Config;
use crate::error::ClickHouseError;
use crate::parameters::Parameters;
use crate::row_decoder::RowFields;
use crate::statement::Statement;
use crate::table::quoted;

/// The version of the schema that this program creates and uses.
const VERSION: u32 = 1;

/// Statements that change a table from the version before the one of their index + 2. `{table}` is its name.
const MIGRATIONS: [&[&str]; VERSION as usize - 1] = [];

/// How long a change of the table may take before the next bytes of its answer.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The number of the error that a table has no rule to remove.
const NO_RULE: &str = "36";

/// How many inserts ClickHouse remembers the tokens of. A puller repeats an insert within seconds, unless nodes restart.
const TOKENS: u32 = 10_000;

/// A table that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schema {
    /// An identity that is equal for all who use the table.
    pub(crate) identity: String,
}

/// What ClickHouse knows of the table.
struct ExistingTable {
    comment: String,
    uuid: String,
}

/// Creates the table, or brings it up to date.
pub(crate) fn prepare(client: &DatabaseClient, config: &Config) -> Result<Schema, ClickHouseError> {
    let url = &config.url;
    let table = match find(client, config)? {
        Some(table) => table,
        None => {
            let change = |sql: String| client.ask_within(Statement::new(sql), CHANGE_TIMEOUT);
            change(format!("CREATE DATABASE IF NOT EXISTS `{}`", url.database))?;
            change(create(config))?;
            info!(database = %url, "created the table");
            find(client, config)?.ok_or(ClickHouseError::Malformed("the new table is not listed"))?
        }
    };
    let version = version_of(&table.comment).ok_or(ClickHouseError::ForeignTable)?;
    if version > VERSION {
        return Err(ClickHouseError::NewerTable(version));
    }
    update(client, config, version, &table.comment)?;
    let is_identified = table.uuid.bytes().any(|byte| byte != b'0' && byte != b'-');
    Ok(Schema { identity: if is_identified { table.uuid } else { url.to_string() } })
}

fn find(client: &DatabaseClient, config: &Config) -> Result<Option<ExistingTable>, ClickHouseError> {
    let mut parameters = Parameters::default();
    let place = |text: &str, parameters: &mut Parameters| parameters.text(text.as_bytes()).unwrap_or_default();
    let (database, table) = (place(&config.url.database, &mut parameters), place(&config.url.table, &mut parameters));
    let sql = format!(
        "SELECT comment, toString(uuid) FROM system.tables WHERE database = {database} AND name = {table} \
         FORMAT RowBinary"
    );
    let answer = client.ask(Statement::question(sql, parameters))?;
    if answer.is_empty() {
        return Ok(None);
    }
    let mut fields = RowFields(&answer);
    let mut text = || fields.text().map(|text| String::from_utf8_lossy(text).into_owned());
    let (comment, uuid) = text().zip(text()).ok_or(ClickHouseError::Malformed("a row of system.tables"))?;
    Ok(Some(ExistingTable { comment, uuid }))
}

/// Migrates the table, and sets its retention age, if it differs.
fn update(client: &DatabaseClient, config: &Config, version: u32, have: &str) -> Result<(), ClickHouseError> {
    let want = comment(config);
    if have == want {
        return Ok(());
    }
    let (table, due) = (quoted(&config.url), MIGRATIONS.iter().skip(version as usize - 1));
    let mut changes: Vec<String> = due.flat_map(|step| step.iter()).map(|sql| sql.replace("{table}", &table)).collect();
    changes.push(match time_to_live(config) {
        // Parts are removed as a whole, so none need be written anew.
        Some(rule) => format!("ALTER TABLE {table} MODIFY TTL {rule} SETTINGS materialize_ttl_after_modify = 0"),
        None if have.contains("kept for") => format!("ALTER TABLE {table} REMOVE TTL"),
        None => format!("ALTER TABLE {table} MODIFY COMMENT '{want}'"),
    });
    changes.push(format!("ALTER TABLE {table} MODIFY COMMENT '{want}'"));
    for sql in changes {
        match client.ask_within(Statement::new(sql.as_str()), CHANGE_TIMEOUT) {
            Ok(_) => {}
            // A start that ended early has removed the rule before.
            Err(ClickHouseError::Refused { code, .. }) if code == NO_RULE && sql.ends_with("REMOVE TTL") => {}
            Err(error) => return Err(error),
        }
    }
    info!(from = have, to = want, "changed the table");
    Ok(())
}

fn comment(config: &Config) -> String {
    match config.retention_age {
        Some(age) => format!("bucksaw schema {VERSION}, kept for {} s", age.as_secs()),
        None => format!("bucksaw schema {VERSION}"),
    }
}

/// The version in a comment; `None` if it is not ours.
fn version_of(comment: &str) -> Option<u32> {
    let rest = comment.strip_prefix("bucksaw schema ")?;
    rest.split(',').next()?.parse().ok().filter(|version| *version > 0)
}

/// When a row is past its retention: both its time and its arrival are.
fn time_to_live(config: &Config) -> Option<String> {
    let seconds = config.retention_age?.as_secs();
    Some(format!("toDateTime(greatest(toDateTime64(time, 3, 'UTC'), accepted)) + toIntervalSecond({seconds})"))
}

fn create(config: &Config) -> String {
    let (table, engine) = (quoted(&config.url), &config.url.engine);
    let rule = time_to_live(config).map(|rule| format!("TTL {rule} ")).unwrap_or_default();
    // Plain and replicated tables remember tokens by settings of different names.
    let window = match engine.starts_with("Replicated") {
        true => "replicated_deduplication_window",
        false => "non_replicated_deduplication_window",
    };
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (\
         id UInt128 CODEC(ZSTD(1)), \
         time DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)), \
         accepted DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)), \
         nanos UInt32 CODEC(T64, ZSTD(1)), \
         flags UInt8 CODEC(ZSTD(1)), \
         labels Map(LowCardinality(String), String) CODEC(ZSTD(1)), \
         attribute_names Array(LowCardinality(String)) CODEC(ZSTD(1)), \
         attribute_values Array(String) CODEC(ZSTD(1)), \
         line String CODEC(ZSTD(1)), \
         INDEX time_range time TYPE minmax GRANULARITY 1\
         ) ENGINE = {engine} PARTITION BY toDate(accepted) ORDER BY id {rule}\
         SETTINGS {window} = {TOKENS}, ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1 \
         COMMENT '{}'",
        comment(config)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Password;

    #[test]
    fn comments_have_version_and_retention() {
        let mut config = Config::new("clickhouse://h/d".parse().unwrap(), Password::default());
        assert_eq!(version_of(&comment(&config)), Some(VERSION));
        config.retention_age = Some(Duration::from_secs(60));
        assert_eq!(comment(&config), "bucksaw schema 1, kept for 60 s");
        assert_eq!(version_of(&comment(&config)), Some(VERSION));
        for foreign in ["", "logs", "bucksaw schema ", "bucksaw schema x", "bucksaw schema 0"] {
            assert_eq!(version_of(foreign), None, "{foreign}");
        }
    }
}
