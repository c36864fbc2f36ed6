//! `query -l`: names the streams with matching records.
//!
//! The node lists the streams of the time range without reading lines. A histogram by stream then counts the matches of
//! twenty streams at a time. With many streams, or with `-m`, the matching records are read instead.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};

use super::query_run::QueryRun;
use crate::answer::{AnswerItem, AnswerStats, NodeRecord};
use crate::exit::Exit;
use crate::node_client;
use crate::print::Out;
use crate::progress::Progress;

/// Limit of the streams that are held in memory, since each is printed once.
const STREAMS_MAX: usize = 100_000;

/// Most streams whose matches are counted. Each histogram is a search of its own.
const COUNTED_MAX: usize = 100;

/// Values of a histogram in one call, as in the API.
const VALUES_MAX: usize = 20;

/// Prints the labels of each stream with a match.
pub(super) async fn run(search: &QueryRun<'_>) -> anyhow::Result<Exit> {
    match candidates(search).await? {
        Some((streams, stats)) => count(search, &streams, stats).await,
        None => read(search).await,
    }
}

/// The streams of the time range, if they are to be counted.
async fn candidates(search: &QueryRun<'_>) -> anyhow::Result<Option<(Vec<String>, AnswerStats)>> {
    if search.args.max_count.is_some() {
        return Ok(None);
    }
    let mut parameters = search.parameters.clone();
    parameters.retain(|(name, _)| *name != "q");
    parameters.push(("limit", (COUNTED_MAX + 1).to_string()));
    let path = node_client::path("/api/v1/streams", &parameters);
    let document = Progress::new("searching").during(search.client.get_json(&path)).await?;
    let listed = document["streams"].as_array().context("the node's answer has no streams")?;
    let mut streams: Vec<String> =
        listed.iter().filter_map(|stream| stream["text"].as_str()).map(str::to_owned).collect();
    streams.sort_unstable();
    // A stream without labels has no text to name it by.
    let is_counted =
        streams.len() <= COUNTED_MAX && document["cut"] != true && streams.iter().all(|text| !text.is_empty());
    Ok(is_counted.then(|| (streams, AnswerStats::from_answer(&document).unwrap_or_default())))
}

/// Prints the streams that have matches.
async fn count(search: &QueryRun<'_>, streams: &[String], listed: AnswerStats) -> anyhow::Result<Exit> {
    let mut out = Out::coloured(search.args.display.color)?;
    let (mut any, mut stats) = (false, listed);
    for streams in streams.chunks(VALUES_MAX) {
        let mut parameters = search.parameters.clone();
        parameters.extend([("buckets", "1".to_owned()), ("by", "@stream".to_owned())]);
        if parameters.iter().all(|(name, _)| *name != "to") {
            // By default a histogram ends now, and a query includes records whose time is ahead of the node's clock.
            parameters.push(("to", "now+1h".to_owned()));
        }
        parameters.extend(streams.iter().map(|stream| ("value", stream.clone())));
        let path = node_client::path("/api/v1/histogram", &parameters);
        let document = Progress::new("searching").during(search.client.get_json(&path)).await?;
        let buckets = document["buckets"].as_array().context("the node's answer has no buckets")?;
        for stream in streams {
            if buckets.iter().any(|bucket| bucket["groups"][stream].as_u64() > Some(0)) {
                print(&mut out, stream)?;
                any = true;
            }
        }
        out.flush()?;
        let counted = AnswerStats::from_answer(&document).unwrap_or_default();
        if !stats.is_partial() {
            stats = counted;
        }
    }
    Ok(search.settle(&stats, any))
}

/// Prints each stream when its first match arrives.
async fn read(search: &QueryRun<'_>) -> anyhow::Result<Exit> {
    let mut out = Out::coloured(search.args.display.color)?;
    let mut reader = search.open("json", search.args.max_count).await?;
    let mut streams = BTreeSet::new();
    while let Some(item) = reader.next(|| out.flush()).await? {
        match item {
            AnswerItem::Object(object) => {
                let stream = NodeRecord::parse(&object)?.stream();
                if streams.contains(&stream) {
                    continue;
                }
                if streams.len() == STREAMS_MAX {
                    bail!("more than {STREAMS_MAX} streams match: narrow the expression or the time range");
                }
                print(&mut out, &stream)?;
                streams.insert(stream);
            }
            AnswerItem::Raw(_) | AnswerItem::Notice(_) => {}
            AnswerItem::Stats(stats) => {
                out.flush()?;
                return Ok(search.settle(&stats, !streams.is_empty()));
            }
        }
    }
    Err(search.ended_early())
}

fn print(out: &mut Out, stream: &str) -> anyhow::Result<()> {
    let shown = if stream.is_empty() { "{}" } else { stream };
    let shown = out.colour.cyan(&out.sanitised(shown.as_bytes()));
    out.write(&shown)?;
    out.write(b"\n")
}
