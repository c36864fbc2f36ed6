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
use crate::print::{Out, human_bytes};
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
    /// As the last answer of the node has it.
    erasure: Value,
    /// Matching records that a search finds.
    remaining: u64,
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
    let id = requested["id"].as_str().unwrap_or_default().to_owned();
    let outcome = wait_until_done(args, &client, &id).await?;
    let Outcome { erasure, remaining, is_complete } = &outcome;
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
async fn wait_until_done(args: &EraseArgs, client: &NodeClient, id: &str) -> anyhow::Result<Outcome> {
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
    let is_partial = found["stats"]["partial"].as_bool().unwrap_or_default();
    let is_complete = erasure["done"] == true && remaining == 0 && !is_partial;
    Ok(Outcome { erasure, remaining, is_complete })
}

fn print(args: &EraseArgs, document: &Value, text: &str) -> anyhow::Result<()> {
    let mut out = Out::stdout()?;
    match args.output {
        DocumentFormat::Text => out.write_sanitised(text.as_bytes())?,
        _ => out.write_sanitised(format!("{document}\n").as_bytes())?,
    }
    out.flush()
}

fn preview(found: &Value) -> String {
    let (count, to) = (&found["count"], found["to"].as_str().unwrap_or_default());
    let from = found["from"].as_str().map(|from| format!(" from {from}")).unwrap_or_default();
    format!("{count} records{from} before {to} match\nnothing was erased: add --yes to erase them\n")
}

fn report(found: &Value, outcome: &Outcome) -> String {
    let Outcome { erasure, remaining, is_complete } = outcome;
    let mut table = TextTable::new(vec!["node", "state", "segments", "records", "bytes", "left"]);
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let (mut failures, nodes) = (String::new(), erasure["nodes"].as_array().cloned().unwrap_or_default());
    for node in nodes {
        let left = number(&node["segments_left"]) + number(&node["queue_segments_left"]);
        let name = node["node"].as_str().unwrap_or_default().to_owned();
        for damaged in node["damaged"].as_array().into_iter().flatten() {
            let file = damaged.as_str().unwrap_or_default();
            failures.push_str(&format!(
                "node {name}: {file} cannot be searched and may have matching records; see docs/erase.md\n"
            ));
        }
        if let Some(failure) = node["failure"].as_str() {
            failures.push_str(&format!("node {name}: {failure}; it erases the records when it returns\n"));
        }
        table.push(vec![
            Some(name),
            Some(node["state"].as_str().unwrap_or_default().to_owned()),
            Some(number(&node["segments"]).to_string()),
            Some(number(&node["records"]).to_string()),
            Some(human_bytes(number(&node["bytes"]))),
            Some(left.to_string()),
        ]);
    }
    let id = erasure["id"].as_str().unwrap_or_default();
    let end = match is_complete {
        true => "no node has a matching record; a search finds none".to_owned(),
        false => format!("the erasure is in effect but not complete; a search finds {remaining} records"),
    };
    format!("erasure {id}: {} records matched\n{table}{failures}{end}\n", found["count"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_what_is_not_complete() {
        let erasure = json!({"id": "7", "done": false, "nodes": [
            {"node": "a", "state": "done", "segments": 2, "records": 5, "bytes": 2048, "damaged": []},
            {"node": "b", "state": "damaged files", "damaged": ["x.damaged"]},
            {"node": "c", "state": "not reached", "failure": "the node is down"}]});
        let outcome = Outcome { erasure, remaining: 0, is_complete: false };
        let text = report(&json!({"count": 5}), &outcome);
        assert!(text.contains("x.damaged cannot be searched") && text.contains("node c: the node is down"), "{text}");
        assert!(text.ends_with("the erasure is in effect but not complete; a search finds 0 records\n"), "{text}");
    }

    #[test]
    fn a_preview_says_that_nothing_was_erased() {
        let text = preview(&json!({"count": 3, "to": "2026-01-01T00:00:00Z"}));
        assert_eq!(text, "3 records before 2026-01-01T00:00:00Z match\nnothing was erased: add --yes to erase them\n");
    }
}
