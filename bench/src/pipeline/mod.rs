//! `pipeline`: records from Kafka, HTTP, gRPC and the framed protocol, through a node, to segments and to ClickHouse.
//!
//! The figures are those of the node. The broker, ClickHouse and the program that sends are beside it on the same machine, so the
//! records per second depend on all of them, and the records per CPU second on the node alone.

mod broker;
pub(crate) mod database;
mod load;
mod plot;
mod sample_records;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bucksaw_faults::wait;
use clap::Args;

use crate::context::BenchContext;
use crate::machine;
use crate::node::BenchNode;
use crate::process;
use crate::results::{BenchRun, Figure, figure};
use crate::senders::{ExportClient, SenderProtocol};
use broker::BenchBroker;
use database::BenchDatabase;
use load::{PipelineAxes, PipelineLoad, PipelineSource, PipelineStore};
use sample_records::SampleRecords;

/// The topic with the records.
const TOPIC: &str = "records";

/// Records of a request over gRPC.
const REQUEST_RECORDS: u64 = 1_000;

/// How often lag and progress are read.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(200);

/// The maximum time until all records are stored.
const STORED_MAX: Duration = Duration::from_secs(900);

/// Measure a pipeline: from Kafka and other sources to segments and ClickHouse
#[derive(Debug, Args)]
pub(crate) struct PipelineArgs {
    /// Directory with the jars of Apache Kafka; without it, Kafka is left out
    #[arg(long, value_name = "DIR")]
    kafka: Option<PathBuf>,

    /// Directory with `launcher` and `libchdb.so`, as `make clickhouse` makes it; without it, ClickHouse is left out
    #[arg(long, value_name = "DIR")]
    clickhouse: Option<PathBuf>,

    /// Records of a run
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,

    /// Bytes of a record
    #[arg(long, value_name = "BYTES", default_value_t = 500, value_parser = clap::value_parser!(u32).range(40..))]
    record_bytes: u32,

    /// Sources, repeatable or separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["kafka", "http", "grpc", "framed"])]
    sources: Vec<PipelineSource>,

    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Times between two commits of Kafka's offsets. The first value of each dimension is the base
    #[arg(long, value_name = "TIME", value_delimiter = ',', default_values = ["1s", "100ms", "10s"])]
    commit_intervals: Vec<String>,

    /// Bytes that a fetch from a partition returns at most
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values = ["1048576", "65536", "8388608"])]
    fetch_bytes: Vec<u64>,

    /// Records of a batch, which is a queue segment: the node's --segment-max-bytes divided by the bytes of a record
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["32000", "4000", "120000", "600000"])]
    batch_records: Vec<u64>,

    /// Directory for plots; none are drawn without it
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

impl PipelineArgs {
    fn axes(&self) -> PipelineAxes<'_> {
        PipelineAxes {
            sources: &self.sources,
            commit_intervals: &self.commit_intervals,
            fetch_bytes: &self.fetch_bytes,
            batch_records: &self.batch_records,
        }
    }
}

pub(crate) fn run(args: &PipelineArgs, context: &BenchContext) -> anyhow::Result<()> {
    let mut results = context.results("pipeline")?;
    let database = args.clickhouse.as_deref().map(|dir| BenchDatabase::start(dir, &context.path("clickhouse")));
    let database = database.transpose()?;
    let broker = args.kafka.as_deref().filter(|_| args.sources.contains(&PipelineSource::Kafka));
    let broker = broker.map(|jars| BenchBroker::start(jars, &context.path("kafka"))).transpose()?;
    if let Some(broker) = &broker {
        eprintln!("{} records into Kafka", args.records);
        broker.fill(TOPIC, args.records, args.record_bytes)?;
    }
    let is_there = |load: &PipelineLoad| {
        (load.source != PipelineSource::Kafka || broker.is_some())
            && (load.store != PipelineStore::ClickHouse || database.is_some())
    };
    let loads: Vec<PipelineLoad> = load::all(&args.axes()).into_iter().filter(is_there).collect();
    ensure!(!loads.is_empty(), "nothing to measure: name --kafka and --clickhouse, or another of --sources");
    for round in 1..=args.rounds as usize {
        for (number, load) in loads.iter().enumerate() {
            let (name, busy) = (load.name(), machine::load());
            let place = format!("run_{round}_{number}");
            let figures = measure(args, load, context, (broker.as_ref(), database.as_ref()), &place);
            let run = BenchRun { subject: name, round, load: busy, figures: figures.with_context(|| load.name())? };
            let speed = |name: &str| run.value(name).unwrap_or(f64::NAN) / 1e3;
            eprintln!(
                "round {round} of {}: {}: {:.0} thousand records/s, {:.0} per CPU second (load {busy:.1})",
                args.rounds,
                run.subject,
                speed("speed"),
                speed("records_per_cpu"),
            );
            results.runs.push(run);
        }
    }
    if let Some(dir) = &args.plots {
        plot::draw_all(dir, &loads, &|name| results.median(name, "records_per_cpu"))?;
    }
    context.report_in_rows(&results)
}

/// One run, with a node and a database of its own.
fn measure(
    args: &PipelineArgs,
    load: &PipelineLoad,
    context: &BenchContext,
    (broker, database): (Option<&BenchBroker>, Option<&BenchDatabase>),
    place: &str,
) -> anyhow::Result<Vec<Figure>> {
    let mut flags =
        vec!["--segment-max-bytes".to_owned(), (load.batch_records * u64::from(args.record_bytes)).to_string()];
    if load.source == PipelineSource::Grpc {
        flags.extend(["--listen-otlp", "127.0.0.1:0"].map(str::to_owned));
    }
    if let (PipelineStore::ClickHouse, Some(database)) = (load.store, database) {
        flags.extend(["--store".to_owned(), database.url(place)]);
    }
    if let (PipelineSource::Kafka, Some(broker)) = (load.source, broker) {
        flags.extend(["--kafka-brokers", broker.address(), "--kafka-topics", TOPIC].map(str::to_owned));
        flags.extend(["--kafka-group".to_owned(), place.to_owned()]);
        flags.extend(["--kafka-commit-interval".to_owned(), load.commit_interval.clone()]);
        flags.extend(["--kafka-option".to_owned(), format!("fetch.message.max.bytes={}", load.fetch_bytes)]);
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let started = Instant::now();
    let node = context.node(place, &flags)?;
    let sender = match load.source {
        PipelineSource::Kafka => None,
        source => send(args, source, context, &node)?,
    };
    let (seconds, lag_max) = wait_stored(args, load, &node, started)?;
    let cpu = node.cpu()?;
    let peak = process::peak_mb(node.pid())?;
    // A count of all records fills the block cache, whose budget is an eighth of a large memory limit.
    node.assert_count(args.records)?;
    let peak_after_count = process::peak_mb(node.pid())?;
    if let (PipelineStore::ClickHouse, Some(database)) = (load.store, database) {
        let rows = database.ask(&format!("SELECT count(), uniqExact(id) FROM {place}.records"))?;
        let want = format!("{0}\t{0}", args.records);
        ensure!(rows == want, "ClickHouse has {rows} rows and ids instead of {want}");
        database.ask(&format!("DROP DATABASE {place}"))?;
    }
    let dir = node.dir().to_owned();
    node.stop()?;
    context.clear(&dir)?;
    let records = args.records as f64;
    let mut figures = vec![
        figure("speed", "records/s", records / seconds),
        figure("records_per_cpu", "records per CPU second", records / cpu),
        figure("cpu_per_million", "CPU seconds per million records", cpu / records * 1e6),
        figure("peak_memory", "MB", peak),
        figure("peak_memory_after_count", "MB", peak_after_count),
    ];
    figures.extend(
        sender.map(|cpu| figure("generator_cpu_per_million", "CPU seconds per million records", cpu / records * 1e6)),
    );
    if load.source == PipelineSource::Kafka {
        figures.push(figure("lag_max", "records", lag_max));
    }
    Ok(figures)
}

/// Sends all records. Returns the CPU seconds of `bucksaw generate`, if that sends them.
fn send(
    args: &PipelineArgs,
    source: PipelineSource,
    context: &BenchContext,
    node: &BenchNode,
) -> anyhow::Result<Option<f64>> {
    let target = match source {
        PipelineSource::Http => format!("http://{}", node.address("http")?),
        PipelineSource::Framed => format!("bucksaw://{}", node.address("fast")?),
        PipelineSource::Grpc => return send_otlp(args, node.address("otlp")?).map(|()| None),
        PipelineSource::Kafka => return Ok(None),
    };
    let before = process::children_cpu_seconds()?;
    let mut command = Command::new(&context.bucksaw);
    command.args(["generate", "--rate", "0", "--count", &args.records.to_string()]);
    command.args(["--size", &args.record_bytes.to_string(), "--to", &target]);
    let output = command.stdin(Stdio::null()).output().context("cannot run `bucksaw generate`")?;
    ensure!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(Some(process::children_cpu_seconds()? - before))
}

/// Sends all records as requests of OTLP over gRPC, of a thousand records each.
fn send_otlp(args: &PipelineArgs, address: &str) -> anyhow::Result<()> {
    let mut client = ExportClient::connect(address)?;
    let (mut records, mut left) = (SampleRecords::new(args.records, args.record_bytes)?, args.records);
    while left > 0 {
        let lines: Vec<String> = (0..left.min(REQUEST_RECORDS))
            .map(|_| String::from_utf8_lossy(records.next_line().1).into_owned())
            .collect();
        left -= lines.len() as u64;
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        client.export(&SenderProtocol::OtlpGrpc.message(&lines)?)?;
    }
    Ok(())
}

/// Waits until all records are stored and the queue is empty. Returns the seconds since `started`, and the longest lag of Kafka.
fn wait_stored(
    args: &PipelineArgs,
    load: &PipelineLoad,
    node: &BenchNode,
    started: Instant,
) -> anyhow::Result<(f64, f64)> {
    let mut lag_max = 0.0_f64;
    wait::until("all records being stored", SAMPLE_INTERVAL, STORED_MAX, || {
        // Each question costs CPU of the node.
        let metrics = node.metrics()?;
        if load.source == PipelineSource::Kafka {
            lag_max = lag_max.max(crate::node::sum(&metrics, "bucksaw_kafka_lag"));
        }
        if (crate::node::sum(&metrics, "bucksaw_ingest_records_total") as u64) < args.records {
            return Ok(None);
        }
        let cluster = node.http()?.get("/api/v1/cluster")?.ok_json()?;
        let queued = crate::node::number(&cluster, "/nodes/0/queue/segments")?;
        Ok((queued == 0).then_some(()))
    })?;
    Ok((started.elapsed().as_secs_f64(), lag_max))
}
