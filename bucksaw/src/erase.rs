//! `bucksaw erase`: removes records from all answers and files.

use std::time::{Duration, Instant};

use bucksaw_record::time::parse_duration;
use clap::Args;
use serde_json::{Value, json};

use crate::args::{DocumentFormat, NodeArgs};
use crate::exit::Exit;
use crate::failure::UsageError;
use crate::interrupt;
use crate::node_client::{self, NodeClient};
use crate::print::{Out, human_bytes, plural};
use crate::progress::Progress;
use crate::text_table::TextTable;
use crate::values::checked_time;

/// Interval of requests for the state of the erasure.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Erase matching records on all nodes
///
/// Without --yes, only counts them. With it, no answer has a matching record from then on. The files that have some are rewritten
/// in the background, which this command waits for; then it searches again. Records that arrive later with a time in the range,
/// from an agent's buffer for example, are left out too. Copies outside of the cluster, such as backups, are out of reach.
/// The expression stays in the erasure and in the audit trail.
/// Exits with 0 once no node has a matching record, 1 if the erasure was refused or failed, 2 on wrong usage, or if it is
/// in effect but some node has not completed it.
#[derive(Clone, Debug, Args)]
pub(crate) struct EraseArgs {
    /// Filter expression of the records, as of query; not empty
    #[arg(value_name = "EXPR")]
    expr: String,

    /// Erase from this time on, instead of all earlier records
    #[arg(long, value_name = "TIME", value_parser = checked_time)]
    from: Option<String>,

    /// Erase up to this time, exclusive; defaults to now
    #[arg(long, value_name = "TIME", value_parser = checked_time)]
    to: Option<String>,

    /// Erase without a question
    #[arg(short, long)]
    yes: bool,

    /// How long to wait until all files are rewritten, such as 10m; the work goes on afterwards
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    wait: Duration,

    /// Output format: text is a table for people, json is one object
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text", hide_possible_values = true)]
    output: DocumentFormat,

    #[command(flatten)]
    node: NodeArgs,
}

/// What the nodes have done.
struct Outcome {
    /// The answer to the request.
    requested: Value,
    /// As the last answer of the node has it.
    erasure: Value,
    /// Matching records that a search finds.
    remaining: u64,
    /// Whether the search may have missed some.
    is_partial: bool,
    is_complete: bool,
}

pub(crate) fn run(args: &EraseArgs) -> anyhow::Result<Exit> {
    interrupt::exit_on_interrupt()?;
    if args.expr.trim().is_empty() {
        return Err(UsageError("an empty expression selects every record: name what to erase".to_owned()).into());
    }
    node_client::runtime()?.block_on(erase(args))
}

async fn erase(args: &EraseArgs) -> anyhow::Result<Exit> {
    let client = NodeClient::new(&args.node)?;
    let found = call(&client, args, true).await?;
    if !args.yes {
        let document = json!({ "count": found["count"], "q": found["q"], "from": found["from"], "to": found["to"],
            "notes": found["notes"], "erased": false });
        return print(args, &document, &preview(&found)).map(|()| Exit::Done);
    }
    let client = client.renewed();
    let requested = call(&client, args, false).await?;
    let outcome = wait_until_done(args, &client, requested).await?;
    let Outcome { requested, erasure, remaining, is_complete, .. } = &outcome;
    let document = json!({ "count": found["count"], "erasure": erasure, "notes": requested["notes"],
        "remaining": remaining, "complete": is_complete, "erased": true });
    print(args, &document, &report(&found, &outcome))?;
    Ok(if *is_complete { Exit::Done } else { Exit::Trouble })
}

async fn call(client: &NodeClient, args: &EraseArgs, is_dry_run: bool) -> anyhow::Result<Value> {
    let mut parameters = vec![("q", args.expr.as_str())];
    parameters.extend(args.from.as_deref().map(|from| ("from", from)));
    parameters.extend(args.to.as_deref().map(|to| ("to", to)));
    parameters.extend(is_dry_run.then_some(("dry_run", "true")));
    client.post_json(&node_client::path("/api/v1/erase", &parameters)).await
}

/// Waits until all nodes have rewritten their files, or the time is over. Then searches.
async fn wait_until_done(args: &EraseArgs, client: &NodeClient, requested: Value) -> anyhow::Result<Outcome> {
    let id = requested["id"].as_str().unwrap_or_default();
    let path = node_client::path("/api/v1/erasures", &[("id", id)]);
    let (deadline, mut progress) = (Instant::now() + args.wait, Progress::new("erasing"));
    let erasure = progress.during(async {
        loop {
            let mut answer = client.renewed().get_json(&path).await?;
            let erasure = answer["erasures"][0].take();
            let nodes = erasure["nodes"].as_array().cloned().unwrap_or_default();
            // What else is left needs an operator, or a node that returns.
            let is_working = nodes.iter().any(|node| matches!(node["state"].as_str(), Some("working" | "unknown")));
            if !is_working || Instant::now() >= deadline {
                return anyhow::Ok(erasure);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    });
    let erasure = erasure.await?;
    let found = call(&client.renewed(), args, true).await?;
    let remaining = found["count"].as_u64().unwrap_or(u64::MAX);
    let is_partial = is_partial(&found);
    let is_complete = erasure["done"] == true && remaining == 0 && !is_partial;
    Ok(Outcome { requested, erasure, remaining, is_partial, is_complete })
}

fn print(args: &EraseArgs, document: &Value, text: &str) -> anyhow::Result<()> {
    let mut out = Out::stdout()?;
    match args.output {
        DocumentFormat::Text => out.write_sanitised(text.as_bytes())?,
        _ => out.write_sanitised(format!("{document}\n").as_bytes())?,
    }
    out.flush()
}

/// The matching records, with their time range.
fn matching(found: &Value) -> String {
    let to = found["to"].as_str().unwrap_or_default();
    let from = found["from"].as_str().map(|from| format!(" from {from}")).unwrap_or_default();
    format!("{}{from} before {to}", plural(number(&found["count"]), "record"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// A line for each copy of the records that the erasure does not reach.
fn notes(document: &Value) -> String {
    let notes = document["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    notes.map(|note| format!("note: {note}\n")).collect()
}

fn is_partial(found: &Value) -> bool {
    found["stats"]["partial"].as_bool().unwrap_or_default()
}

fn preview(found: &Value) -> String {
    let verb = if number(&found["count"]) == 1 { "matches" } else { "match" };
    let partial = match is_partial(found) {
        true => "the count is partial: nodes or files are missing from it, which 'bucksaw status' names\n",
        false => "",
    };
    let (matching, notes) = (matching(found), notes(found));
    format!("{matching} {verb}\n{partial}{notes}nothing was erased: add --yes to erase what matches\n")
}

fn report(found: &Value, outcome: &Outcome) -> String {
    let Outcome { erasure, remaining, is_partial, is_complete, .. } = outcome;
    let mut table = TextTable::new(vec!["node", "state", "segments", "records", "bytes", "left"]);
    let (mut failures, nodes) = (String::new(), erasure["nodes"].as_array().cloned().unwrap_or_default());
    for node in nodes {
        let name = node["node"].as_str().unwrap_or_default().to_owned();
        for damaged in node["damaged"].as_array().into_iter().flatten() {
            let file = damaged.as_str().unwrap_or_default();
            failures.push_str(&format!(
                "node {name}: {file} cannot be searched and may have matching records; see docs/erase.md\n"
            ));
        }
        if let Some(failure) = node["failure"].as_str() {
            let returns = if node["state"] == "not reached" { "; it erases the records when it returns" } else { "" };
            failures.push_str(&format!("node {name}: {failure}{returns}\n"));
        }
        // A node that did not report has no numbers.
        let has_reported = node["segments_left"].is_u64();
        let cell = |text: String| has_reported.then_some(text);
        let left = number(&node["segments_left"]) + number(&node["queue_segments_left"]);
        table.push(vec![
            Some(name),
            Some(node["state"].as_str().unwrap_or_default().to_owned()),
            cell(number(&node["segments"]).to_string()),
            cell(number(&node["records"]).to_string()),
            cell(human_bytes(number(&node["bytes"]))),
            cell(left.to_string()),
        ]);
    }
    let id = erasure["id"].as_str().unwrap_or_default();
    let search = if *is_partial { "a search, which is partial, finds" } else { "a search finds" };
    let remaining = if *remaining == 0 { "none".to_owned() } else { plural(*remaining, "record") };
    let end = match is_complete {
        true => format!("no node has a matching record; {search} {remaining}"),
        false => format!(
            "the erasure is in effect but not complete; {search} {remaining}\n\
             the work goes on: /api/v1/erasures?id={id} has its state"
        ),
    };
    format!("erasure {id} of {}\n{table}{failures}{}{end}\n", matching(found), notes(&outcome.requested))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(erasure: Value, notes: Value, is_complete: bool) -> Outcome {
        Outcome { requested: json!({"notes": notes}), erasure, remaining: 0, is_partial: false, is_complete }
    }

    #[test]
    fn the_report_names_what_is_not_complete() {
        let erasure = json!({"id": "7", "done": false, "nodes": [
            {"node": "a", "state": "done", "segments": 2, "records": 5, "bytes": 2048, "damaged": [],
                "segments_left": 0, "queue_segments_left": 0},
            {"node": "b", "state": "damaged files", "damaged": ["x.damaged"], "segments": 0, "records": 0, "bytes": 0,
                "segments_left": 1, "queue_segments_left": 2},
            {"node": "c", "state": "not reached", "failure": "the node is down"},
            {"node": "d", "state": "unknown", "failure": "the node does not have the erasure yet"}]});
        let found = json!({"count": 1, "from": "2025", "to": "2026"});
        let mut outcome = outcome(erasure, json!([]), false);
        let want = "\
erasure 7 of 1 record from 2025 before 2026
NODE  STATE          SEGMENTS  RECORDS  BYTES   LEFT
a     done           2         5        2.0 KB  0
b     damaged files  0         0        0 B     3
c     not reached    -         -        -       -
d     unknown        -         -        -       -
node b: x.damaged cannot be searched and may have matching records; see docs/erase.md
node c: the node is down; it erases the records when it returns
node d: the node does not have the erasure yet
the erasure is in effect but not complete; a search finds none
the work goes on: /api/v1/erasures?id=7 has its state
";
        assert_eq!(report(&found, &outcome), want);
        (outcome.remaining, outcome.is_partial) = (2, true);
        let text = report(&found, &outcome);
        assert!(text.contains("not complete; a search, which is partial, finds 2 records\n"), "{text}");
    }

    #[test]
    fn copies_out_of_reach_are_noted() {
        let notes = json!(["rows stay in ClickHouse"]);
        let erasure = json!({"id": "7", "done": true, "nodes": []});
        let text = report(&json!({"count": 2, "to": "2026"}), &outcome(erasure, notes.clone(), true));
        let end = "note: rows stay in ClickHouse\nno node has a matching record; a search finds none\n";
        assert!(text.starts_with("erasure 7 of 2 records before 2026\n") && text.ends_with(end), "{text}");
        let text = preview(&json!({"count": 2, "to": "2026", "notes": notes}));
        assert!(text.contains(" match\nnote: rows stay in ClickHouse\nnothing was erased"), "{text}");
    }

    #[test]
    fn a_preview_says_that_nothing_was_erased() {
        let check = |found: Value, want: &str| assert_eq!(preview(&found), want, "{found}");
        let end = "nothing was erased: add --yes to erase what matches\n";
        check(json!({"count": 3, "to": "2026"}), &format!("3 records before 2026 match\n{end}"));
        check(
            json!({"count": 1, "from": "2025", "to": "2026"}),
            &format!("1 record from 2025 before 2026 matches\n{end}"),
        );
        let partial = json!({"count": 0, "to": "2026", "stats": {"partial": true}});
        let line = "the count is partial: nodes or files are missing from it, which 'bucksaw status' names\n";
        check(partial, &format!("0 records before 2026 match\n{line}{end}"));
    }
}
