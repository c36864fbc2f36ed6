//! Times one query.

use std::io::Read as _;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use bucksaw_faults::http::{Client, encode};

use super::queries::{Query, QueryOutput};
use crate::node::{BenchNode, number};
use crate::process;
use crate::spread::median;

/// Consecutive runs of a query. The first may fill caches for the others.
const RUNS: usize = 6;

/// The result and the cost of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryTiming {
    pub(crate) lines: u64,
    /// Bytes of the lines, if printed.
    pub(crate) bytes: u64,
    /// CPU of the first run.
    pub(crate) first_cpu_seconds: f64,
    /// The median of the other runs.
    pub(crate) cpu_seconds: f64,
    /// The median of the other runs.
    pub(crate) wall_seconds: f64,
}

/// Runs a query several times.
pub(crate) fn time_query(node: &BenchNode, query: &Query) -> anyhow::Result<QueryTiming> {
    let mut http = node.http()?;
    let (mut found, mut cpu, mut wall) = (QueryResult::default(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (before, started) = (process::cpu_nanos(node.pid())?, Instant::now());
        found = run_query(&mut http, query)?;
        wall.push(started.elapsed().as_secs_f64());
        cpu.push((process::cpu_nanos(node.pid())? - before) as f64 / 1e9);
    }
    let again = |times: &[f64]| median(times.get(1..).unwrap_or_default());
    let QueryResult { lines, bytes, .. } = found;
    let first_cpu_seconds = cpu.first().copied().unwrap_or(f64::NAN);
    Ok(QueryTiming { lines, bytes, first_cpu_seconds, cpu_seconds: again(&cpu), wall_seconds: again(&wall) })
}

/// What a query found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueryResult {
    pub(crate) lines: u64,
    /// Bytes of the lines, if printed.
    pub(crate) bytes: u64,
    /// Bytes of text that no skip filter excluded, if counted.
    pub(crate) scanned: u64,
}

/// Runs a query once, over all time.
pub(crate) fn run_query(http: &mut Client, query: &Query) -> anyhow::Result<QueryResult> {
    let q = encode(query.expr);
    let mut found = QueryResult::default();
    match query.output {
        QueryOutput::Count => {
            let answer = http.get(&format!("/api/v1/count?from=30d&q={q}"))?.ok_json()?;
            found.lines = number(&answer, "/count").with_context(|| query.expr.to_owned())?;
            found.scanned = number(&answer, "/stats/bytes_scanned")?;
        }
        QueryOutput::Lines => {
            let target = format!("/api/v1/query?from=30d&q={q}");
            let mut response = http.open_borrowed("GET", &target, &[("Accept", "text/plain")], b"")?;
            ensure!(response.status == 200, "GET {target}: status {}", response.status);
            let mut buffer = vec![0; 64 << 10];
            loop {
                let read = response.body.read(&mut buffer)?;
                if read == 0 {
                    break;
                }
                found.bytes += read as u64;
                found.lines += memchr::memchr_iter(b'\n', buffer.get(..read).unwrap_or_default()).count() as u64;
            }
        }
    }
    Ok(found)
}
