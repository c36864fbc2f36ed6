//! `decode`: the CPU cost of decoding OTLP requests, compared with `prost` alone.
//!
//! Runs on one thread in this process: no listener, no queue. A request has some thousand lines of the input as records with two
//! attributes each.

use std::path::PathBuf;

use anyhow::ensure;
use bucksaw_protocols::Discard;
use bucksaw_protocols::otlp::OtlpDecoder;
use bucksaw_record::Labels;
use clap::Args;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

use crate::context::{BenchContext, Size};
use crate::results::{BenchRun, Figure, figure};
use crate::{machine, process};

/// Records of a request: the default batch of the Collector.
const REQUEST_RECORDS: usize = 8_192;

/// Measure the speed of decoding OTLP
#[derive(Debug, Args)]
pub(crate) struct DecodeArgs {
    /// Files of lines; generated lines if omitted
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Bytes of a file to send, from its beginning
    #[arg(long, value_name = "SIZE", default_value = "64MB")]
    sample: Size,
}

pub(crate) fn run(args: &DecodeArgs, context: &BenchContext) -> anyhow::Result<()> {
    let mut results = context.results("decode")?;
    for corpus in context.corpora(&args.files)? {
        let sample = corpus.sample(args.sample.0)?;
        let lines: Vec<&[u8]> = sample.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        let requests: Vec<ExportLogsServiceRequest> = lines.chunks(REQUEST_RECORDS).map(request).collect();
        for round in 1..=args.rounds as usize {
            let load = machine::load();
            eprintln!("{}, round {round}", corpus.name());
            let figures = measure(&requests, sample.len())?;
            results.runs.push(BenchRun { subject: corpus.name(), round, load, figures });
        }
    }
    context.report_in_rows(&results)
}

fn measure(requests: &[ExportLogsServiceRequest], text_bytes: usize) -> anyhow::Result<Vec<Figure>> {
    let protobuf: Vec<Vec<u8>> = requests.iter().map(prost::Message::encode_to_vec).collect();
    let json: Vec<Vec<u8>> = requests.iter().map(serde_json::to_vec).collect::<Result<_, _>>()?;
    let records: u64 = requests.iter().map(|request| record_count(request) as u64).sum();
    let mut decoder = OtlpDecoder::new(&Labels::default());
    let own = timed(&protobuf, records, |body| Ok(decoder.protobuf(body, &mut Discard)?.accepted))?;
    let of_json = timed(&json, records, |body| Ok(decoder.json(body, &mut Discard)?.accepted))?;
    let prost = timed(&protobuf, records, |body| Ok(record_count(&ExportLogsServiceRequest::decode(body)?) as u64))?;
    let mb = text_bytes as f64 / 1e6;
    Ok(vec![
        figure("text", "MB", mb),
        figure("protobuf", "MB per CPU second", mb / own),
        figure("json", "MB per CPU second", mb / of_json),
        figure("prost_alone", "MB per CPU second", mb / prost),
        figure("protobuf_against_prost", "times", prost / own),
    ])
}

/// CPU seconds of decoding all bodies.
fn timed(
    bodies: &[Vec<u8>],
    records: u64,
    mut decode: impl FnMut(&[u8]) -> anyhow::Result<u64>,
) -> anyhow::Result<f64> {
    // A first run without measurement allocates the memory.
    if let Some(first) = bodies.first() {
        decode(first)?;
    }
    let (before, mut decoded) = (process::thread_cpu_seconds()?, 0);
    for body in bodies {
        decoded += decode(body)?;
    }
    let seconds = process::thread_cpu_seconds()? - before;
    ensure!(decoded == records, "{decoded} of {records} records were decoded");
    Ok(seconds)
}

/// A request with these lines, with two attributes each.
pub(crate) fn request(lines: &[&[u8]]) -> ExportLogsServiceRequest {
    let records = (0_u64..).zip(lines).map(|(number, line)| LogRecord {
        time_unix_nano: 1_700_000_000_000_000_000 + number * 1_000_000,
        severity_text: "INFO".to_owned(),
        severity_number: 9,
        body: Some(value(Value::StringValue(String::from_utf8_lossy(line).into_owned()))),
        attributes: vec![
            pair("http.route", Value::StringValue("/api/v1/orders".to_owned())),
            pair("thread.id", Value::IntValue(7)),
        ],
        ..LogRecord::default()
    });
    let resource = Resource {
        attributes: vec![pair("service.name", Value::StringValue("shop".to_owned()))],
        ..Resource::default()
    };
    let scope_logs = ScopeLogs { log_records: records.collect(), ..ScopeLogs::default() };
    let logs = ResourceLogs { resource: Some(resource), scope_logs: vec![scope_logs], ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![logs] }
}

fn record_count(request: &ExportLogsServiceRequest) -> usize {
    request.resource_logs.iter().flat_map(|logs| &logs.scope_logs).map(|logs| logs.log_records.len()).sum()
}

fn value(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn pair(key: &str, of: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value(of)), ..KeyValue::default() }
}
