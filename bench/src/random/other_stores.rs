//! VictoriaLogs and ClickHouse, which answer the same questions from copies of the log.
//!
//! Both get the lines and nothing else, and search them for the pieces and regexes that `rg` searches for: a field of a question
//! about JSON is the text of its key and value. What they find is not compared, because each has its own regexes and letters.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bucksaw_faults::http::{Client, encode};
use bucksaw_faults::wait;
use clap::Args;

use super::draw::{DrawnQuestion, Kind, RgSearch};
use super::text::LogText;
use crate::context::BenchContext;
use crate::node::http_client;
use crate::pipeline::database::BenchDatabase;
use crate::process;
use crate::senders::rival::{Rival, RivalServer};
use crate::spread::median;

/// Runs of a question, after the first.
const RUNS: usize = 2;

/// Bytes of a request with lines.
const REQUEST_BYTES: usize = 4 << 20;

/// The maximum time until lines that were sent are in files.
const STORED_MAX: Duration = Duration::from_secs(60);

/// The table of ClickHouse: lines with an index of their pieces of four bytes, for each 8,192 lines.
const TABLE: &str = "CREATE TABLE bench.log (line String CODEC(ZSTD(1)), INDEX pieces line TYPE ngrambf_v1(4, 32768, 3, 0) GRANULARITY 1) ENGINE = MergeTree ORDER BY tuple()";

/// Programs to compare with
#[derive(Debug, Args)]
pub(super) struct OtherStoreArgs {
    /// Program of VictoriaLogs to compare with
    #[arg(long, value_name = "FILE")]
    victoria: Option<PathBuf>,

    /// Directory of an installed ClickHouse to compare with
    #[arg(long, value_name = "DIR")]
    clickhouse: Option<PathBuf>,
}

/// CPU seconds of the others for a question, if they were asked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OtherCosts {
    pub(super) victoria: Option<f64>,
    pub(super) clickhouse: Option<f64>,
}

enum RivalStore {
    VictoriaLogs(RivalServer),
    ClickHouse(BenchDatabase),
}

/// Asks the questions of the programs that are given. The newest page is not asked for, as all lines have the same time there.
pub(super) fn ask(
    args: &OtherStoreArgs,
    context: &BenchContext,
    log: &LogText,
    questions: &[&DrawnQuestion],
) -> anyhow::Result<Vec<OtherCosts>> {
    let mut costs = vec![OtherCosts::default(); questions.len()];
    if let Some(program) = &args.victoria {
        let store = RivalStore::victoria(context, program, log)?;
        for (costs, question) in costs.iter_mut().zip(questions) {
            costs.victoria = store.cost(question)?;
        }
        drop(store);
        context.clear(&context.path(Rival::VictoriaLogs.name()))?;
    }
    if let Some(installed) = &args.clickhouse {
        let dir = context.path("clickhouse");
        let store = RivalStore::clickhouse(installed, &dir, log)?;
        for (costs, question) in costs.iter_mut().zip(questions) {
            costs.clickhouse = store.cost(question)?;
        }
        drop(store);
        context.clear(&dir)?;
    }
    Ok(costs)
}

impl RivalStore {
    fn victoria(context: &BenchContext, program: &Path, log: &LogText) -> anyhow::Result<Self> {
        let server = RivalServer::start(context, Rival::VictoriaLogs, program)?;
        let mut http = http_client(&server.http)?;
        let mut sent = 0;
        for lines in requests(log) {
            let mut body = Vec::new();
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                serde_json::to_writer(&mut body, &serde_json::json!({ "_msg": String::from_utf8_lossy(line) }))?;
                body.push(b'\n');
                sent += 1;
            }
            let answer =
                http.call("POST", "/insert/jsonline", &[("Content-Type", "application/stream+json")], &body)?;
            ensure!(answer.status == 200, "VictoriaLogs: {}", answer.text());
        }
        server.flush(&mut http)?;
        wait::until("the lines in files of VictoriaLogs", Duration::from_millis(250), STORED_MAX, || {
            Ok((!server.has_unwritten(&mut http)? && server.count()? == sent).then_some(()))
        })?;
        Ok(Self::VictoriaLogs(server))
    }

    fn clickhouse(installed: &Path, dir: &Path, log: &LogText) -> anyhow::Result<Self> {
        let database = BenchDatabase::start(installed, dir)?;
        // The default database shows files as tables.
        database.ask("CREATE DATABASE bench ENGINE = Atomic")?;
        database.ask(TABLE)?;
        for lines in requests(log) {
            database.ask_bytes(&[b"INSERT INTO bench.log FORMAT LineAsString\n".as_slice(), lines].concat())?;
        }
        database.ask("OPTIMIZE TABLE bench.log FINAL")?;
        Ok(Self::ClickHouse(database))
    }

    /// CPU seconds of a count with everything cached that the program caches; `None` for a page.
    fn cost(&self, question: &DrawnQuestion) -> anyhow::Result<Option<f64>> {
        if question.kind == Kind::NewestPage {
            return Ok(None);
        }
        let mut times = Vec::new();
        for run in 0..=RUNS {
            let before = process::cpu_nanos(self.pid())?;
            self.count(question).with_context(|| question.expr.clone())?;
            if run > 0 {
                times.push((process::cpu_nanos(self.pid())? - before) as f64 / 1e9);
            }
        }
        Ok(Some(median(&times)))
    }

    fn pid(&self) -> u32 {
        match self {
            Self::VictoriaLogs(server) => server.pid(),
            Self::ClickHouse(database) => database.pid(),
        }
    }

    fn count(&self, question: &DrawnQuestion) -> anyhow::Result<()> {
        match self {
            Self::VictoriaLogs(server) => {
                let terms: Vec<String> = question.searches.iter().map(logsql).collect();
                let query = encode(format!("{} | stats count() n", terms.join(" ")));
                let mut http: Client = http_client(&server.http)?;
                let answer = http.get(&format!("/select/logsql/query?start=-1d&query={query}"))?;
                ensure!(answer.status == 200, "{}", answer.text());
            }
            Self::ClickHouse(database) => {
                let terms: Vec<String> = question.searches.iter().map(sql).collect();
                database.ask(&format!(
                    "SELECT count() FROM bench.log WHERE {} SETTINGS max_threads = 1",
                    terms.join(" AND ")
                ))?;
            }
        }
        Ok(())
    }
}

/// The text in parts of whole lines.
fn requests(log: &LogText) -> impl Iterator<Item = &[u8]> {
    let mut rest = log.bytes();
    std::iter::from_fn(move || {
        let all = rest;
        let head = all.get(..REQUEST_BYTES).unwrap_or(all);
        let end = memchr::memrchr(b'\n', head).map_or(all.len(), |feed| feed + 1);
        let (lines, behind) = all.split_at(end);
        rest = behind;
        (!lines.is_empty()).then_some(lines)
    })
}

/// A search in LogsQL. Pieces are no words, so they are regexes, too.
fn logsql(search: &RgSearch) -> String {
    let has = |option: &str| search.options.contains(&option);
    let pattern = if has("-F") { regex_syntax::escape(&search.pattern) } else { search.pattern.clone() };
    let pattern = format!("{}{pattern}", if has("-i") { "(?i)" } else { "" });
    format!("{}~{}", if has("-v") { "!" } else { "" }, serde_json::Value::String(pattern))
}

/// A search as a condition in SQL, in the form that uses the index.
fn sql(search: &RgSearch) -> String {
    let has = |option: &str| search.options.contains(&option);
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let condition = if has("-F") {
        let piece = search.pattern.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        format!("line {} {}", if has("-i") { "ILIKE" } else { "LIKE" }, quoted(&format!("%{piece}%")))
    } else {
        format!("match(line, {})", quoted(&search.pattern))
    };
    format!("{}({condition})", if has("-v") { "NOT " } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_quoted() {
        let search = |pattern: &str, options| RgSearch { pattern: pattern.to_owned(), options };
        let piece = search("a_b%'\\\"(", &["-F"]);
        assert_eq!(sql(&piece), r#"(line LIKE '%a\\_b\\%\'\\\\"(%')"#);
        assert_eq!(logsql(&piece), r#"~"a_b%'\\\\\"\\(""#);
        let regex = search(r"\d+'x", &[]);
        assert_eq!((sql(&regex), logsql(&regex)), (r"(match(line, '\\d+\'x'))".to_owned(), r#"~"\\d+'x""#.to_owned()));
        let others = search("Word", &["-F", "-i", "-v"]);
        assert_eq!(
            (sql(&others), logsql(&others)),
            ("NOT (line ILIKE '%Word%')".to_owned(), "!~\"(?i)Word\"".to_owned())
        );
    }

    #[test]
    fn requests_are_whole_lines() {
        let text = b"some line\n".repeat(REQUEST_BYTES / 4);
        let log = LogText::new(text.clone());
        let parts: Vec<&[u8]> = requests(&log).collect();
        assert!(parts.len() > 2 && parts.iter().all(|part| part.ends_with(b"\n") && part.len() <= REQUEST_BYTES));
        assert_eq!(parts.concat(), text);
    }
}
