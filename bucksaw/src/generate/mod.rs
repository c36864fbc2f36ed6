//! `bucksaw generate`: writes realistic log lines at a rate, to standard output or to a node.
//!
//! ```text
//!   thread: producer ─ lines due, in batches ─► channel ─► bucksaw://  agent of `bucksaw_forward`
//!              │                          full: back-pressure  http://     bodies with idempotency keys
//!              │                                               grpc://     batches of `bucksaw.v1` with idempotency keys
//!              │                                               kafka://    an idempotent producer of librdkafka
//!              └──► standard output
//!   main thread: signals, rate log, progress, metrics
//! ```
//! A target that takes less than the rate delays the producer. Lines that are late by more than a second are left out and
//! counted, so that no burst follows a pause.

mod args;
mod batch_pipe;
mod framed;
mod grpc;
mod http;
mod kafka;
mod load_totals;
mod metrics;
mod producer;
mod rate_log;
mod run_summary;
mod supervisor;
mod target;

use std::thread;

use anyhow::Context as _;
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use args::GenerateArgs;

use crate::args::NodeArgs;
use crate::exit::Exit;
use crate::print::Out;
use load_totals::LoadCounters;
use producer::{LineBatch, LineProducer};
use supervisor::Supervisor;
use target::LoadTarget;

/// Batches between the producer and a node. With their size they bound the memory.
const BATCHES_QUEUED_MAX: usize = 4;

pub(crate) fn run(args: &GenerateArgs) -> anyhow::Result<Exit> {
    let (stop, stopping) = watch::channel(false);
    let (counters, producer) = (LoadCounters::default(), args.producer(stopping.clone()));
    let runtime = crate::node_client::runtime()?;
    runtime.block_on(async {
        let supervisor = Supervisor::new(args, counters.clone(), stop)?;
        let Some(target) = &args.to else {
            let written = start_standard_output(producer, counters)?;
            let written = async { written.await.context("the thread that writes has ended")? };
            return supervisor.run(written, false).await;
        };
        crate::log::start("info")?;
        args.check_network()?;
        metrics::serve(&args.listen, &counters, stopping).await?;
        let (sender, batches) = mpsc::channel(BATCHES_QUEUED_MAX);
        let counters_of_producer = counters.clone();
        start_thread(move || producer.run(&counters_of_producer, |batch| Ok(sender.blocking_send(batch).is_ok())))?;
        match target {
            LoadTarget::Framed { .. } => {
                let config = args.forward_config(target)?;
                counters.follow(config.monitor.clone());
                supervisor.run(framed::send(batches, config, counters), true).await
            }
            LoadTarget::Http(url) => {
                let (tls, token) = (args.tls.clone(), args.token.clone());
                let node = NodeArgs { addr: url.clone(), timeout: None, tls, token };
                let upload = http::LineUpload::new(&node, &args.labels()?, args.durability)?;
                supervisor.run(http::send(batches, upload, counters), true).await
            }
            LoadTarget::Grpc(address) => {
                let call = grpc::IngestCall::new(address, args.labels()?, args.durability);
                supervisor.run(call.send(batches, counters), true).await
            }
            LoadTarget::Kafka { broker, topic } => {
                let producer = kafka::TopicProducer::new(broker, topic, &args.kafka_option, counters)?;
                let (ended, end) = oneshot::channel();
                start_thread(move || {
                    // The receiver is dropped at an interrupt.
                    let _ = ended.send(producer.send(batches));
                    Ok(())
                })?;
                let sent = async { end.await.context("the thread that sends has ended")? };
                supervisor.run(sent, true).await
            }
        }
    })
}

/// Writes to standard output on a thread; returns the result of that.
fn start_standard_output(
    producer: LineProducer,
    counters: LoadCounters,
) -> anyhow::Result<oneshot::Receiver<anyhow::Result<()>>> {
    let (mut out, (ended, end)) = (Out::stdout()?, oneshot::channel());
    start_thread(move || {
        let written = producer.run(&counters.clone(), |batch: LineBatch| {
            out.write(&batch.text)?;
            out.flush()?;
            counters.add_written(batch.lines, batch.text.len() as u64);
            Ok(true)
        });
        // The receiver is dropped at an interrupt.
        let _ = ended.send(written);
        Ok(())
    })?;
    Ok(end)
}

fn start_thread(work: impl FnOnce() -> anyhow::Result<()> + Send + 'static) -> anyhow::Result<()> {
    // It ends with its channel or with the process: nothing waits for a thread that is blocked by a pipe.
    thread::Builder::new().name("generate".to_owned()).spawn(work).context("cannot start a thread").map(drop)
}
