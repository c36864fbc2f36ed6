//! Compares answers with the ledgers.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::fleet::url;
use crate::http::call;
use crate::ledger::{ExpectedLines, Ledger, LedgerComparison};

/// The read timeout of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(40);

/// An answer.
#[derive(Debug)]
pub(crate) struct ComparedAnswer {
    pub(crate) partial: bool,
    pub(crate) comparison: LedgerComparison,
}

/// Queries a node for the lines of a writer; `None` without a whole answer.
pub(crate) fn query_and_compare(at: SocketAddr, ledger: &Ledger, expected: &ExpectedLines) -> Option<ComparedAnswer> {
    let target = format!("/api/v1/query?from={}&q=writer%3D{}", expected.since.seconds, ledger.name());
    let answer = call(at, "GET", &target, &[("Accept", "text/plain")], b"", READ_TIMEOUT).ok()?;
    let partial = partial(answer.header("bucksaw-stats")?)?;
    (answer.status == 200).then(|| compare_answer(ledger, expected, &answer.body, partial))
}

/// Whether a loss is detected: expects one line more than was sent.
pub(crate) fn detects_loss(at: SocketAddr) -> bool {
    let ledger = Ledger::new("unused");
    ledger.acknowledge(ledger.next(1));
    query_and_compare(at, &ledger, &ledger.everything())
        .is_some_and(|seen| !seen.partial && seen.comparison.lost == [0])
}

fn partial(stats: &str) -> Option<bool> {
    serde_json::from_str::<serde_json::Value>(stats).ok()?["partial"].as_bool()
}

fn compare_answer(ledger: &Ledger, expected: &ExpectedLines, text: &[u8], partial: bool) -> ComparedAnswer {
    let verdict = ledger.compare(text, expected);
    if !partial && verdict.lost.is_empty() && verdict.is_clean() {
        ledger.mark_found(&verdict, expected);
    }
    ComparedAnswer { partial, comparison: verdict }
}

/// Queries all lines of a writer with `bucksaw query`.
///
/// # Errors
/// The program fails, or does not report whether the answer is complete.
pub(crate) fn query(bucksaw: &Path, at: SocketAddr, ledger: &Ledger) -> anyhow::Result<ComparedAnswer> {
    let expected = ledger.everything();
    let mut command = Command::new(bucksaw);
    command.args(["query", "--addr", &url(at), "--from", "0", "--stats", &format!("writer={}", ledger.name())]);
    let output = command.env_clear().stdin(Stdio::null()).output().context("cannot run bucksaw query")?;
    let messages = String::from_utf8_lossy(&output.stderr);
    let partial = messages.contains("the answer is partial");
    // 1 means that no record matched, 2 that the answer is partial; the comparison judges both. The flag that allows partial
    // answers is unknown to an older program.
    let is_answer = matches!(output.status.code(), Some(0 | 1)) || partial && output.status.code() == Some(2);
    ensure!(is_answer, "bucksaw query: {}\n{messages}", output.status);
    Ok(compare_answer(ledger, &expected, &output.stdout, partial))
}
