//! `search`: questions of all kinds to logs of several kinds, beside `rg` on the raw file and `zstd -dc | rg`.

mod queries;
mod rivals;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::corpus::Corpus;
use crate::node::{Node, number};
use crate::results::{Run, figure};
use crate::setting::Setting;
use crate::{feed, machine, process};
use queries::Query;

/// A question is asked so often in a row, so that quick answers can be measured.
const TIMES: usize = 5;

/// How fast questions of all kinds are answered
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Files of lines, each a log of its own; left out, lines are generated. Questions are chosen by the first word of the
    /// name: web, json, java, db
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// How often all is asked
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) fn run(args: &SearchArgs, setting: &Setting) -> anyhow::Result<()> {
    ensure!(rivals::are_there(), "rg and zstd are missing: apt-get install ripgrep zstd");
    let mut results = setting.results("search")?;
    let corpora: anyhow::Result<Vec<Corpus>> = match args.files.is_empty() {
        true => setting.corpus().map(|corpus| vec![corpus]),
        false => args.files.iter().map(|file| Corpus::of_file(file)).collect(),
    };
    for corpus in corpora? {
        results.runs.extend(one(args, setting, &corpus)?);
    }
    setting.report_in_rows(&results)
}

fn one(args: &SearchArgs, setting: &Setting, corpus: &Corpus) -> anyhow::Result<Vec<Run>> {
    let packed = setting.path("packed.zst");
    let zstd_bytes = rivals::pack(&corpus.path, &packed)?;
    let node = setting.node("node", &["--retention-age", "none"])?;
    feed::file(node.address("fast")?, corpus)?;
    node.wait_accepted(corpus.bytes)?;
    let (_, cpu) = node.wait_settled(corpus.bytes)?;
    node.wait_removed()?;
    let name = corpus.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let stored = process::disk_bytes(node.dir())?;
    let figures = vec![
        figure("text", "MB", corpus.bytes as f64 / 1e6),
        figure("stored", "MB", stored as f64 / 1e6),
        figure("smaller_than_zstd", "times", zstd_bytes as f64 / stored as f64),
        figure("ingest_and_packing", "MB per CPU second", corpus.bytes as f64 / 1e6 / cpu),
    ];
    let mut runs = vec![Run { subject: format!("{name}: size"), round: 1, load: machine::load(), figures }];
    for round in 1..=args.rounds as usize {
        for query in queries::of(&corpus.path) {
            let load = machine::load();
            let figures = ask(&node, corpus, &packed, query)?;
            let subject = format!("{name}: {}", query.kind);
            eprintln!("{subject}, round {round}");
            runs.push(Run { subject, round, load, figures });
        }
    }
    node.stop()?;
    setting.clear(&setting.path("node"))?;
    Ok(runs)
}

fn ask(node: &Node, corpus: &Corpus, packed: &Path, query: &Query) -> anyhow::Result<Vec<crate::results::Figure>> {
    let mut http = node.http()?;
    let path = format!("/api/v1/count?from=30d&q={}", escaped(query.expr));
    let (cpu, started) = (process::cpu_nanos(node.pid())?, Instant::now());
    let mut count = 0;
    for _ in 0..TIMES {
        let answer = http.get(&path)?.json()?;
        count = number(&answer, "/count").with_context(|| query.expr.to_owned())?;
    }
    let wall = started.elapsed().as_secs_f64() / TIMES as f64;
    let cpu = (process::cpu_nanos(node.pid())? - cpu) as f64 / 1e9 / TIMES as f64;
    let rg = rivals::rg(query.regex, &corpus.path)?;
    ensure!(rg.lines == count, "{}: rg finds {} lines, the node {count}", query.expr, rg.lines);
    let zstd_rg = rivals::zstd_rg(query.regex, packed)?;
    let speed = |seconds: f64| corpus.bytes as f64 / 1e9 / seconds;
    Ok(vec![
        figure("matches", "lines", count as f64),
        figure("cpu", "ms", cpu * 1e3),
        figure("wall", "ms", wall * 1e3),
        figure("speed", "GB of text per CPU second", speed(cpu)),
        figure("rg_speed", "GB per CPU second", speed(rg.cpu_seconds)),
        figure("zstd_rg_speed", "GB per CPU second", speed(zstd_rg.cpu_seconds)),
        figure("against_rg", "times", rg.cpu_seconds / cpu),
        figure("against_zstd_rg", "times", zstd_rg.cpu_seconds / cpu),
        figure("wall_against_rg", "times", rg.wall_seconds / wall),
    ])
}

/// As part of a URL.
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_travel() {
        assert_eq!(escaped("a \"b\"i"), "a%20%22b%22i");
    }
}
