//! Apache Kafka as a broker of one node, in KRaft mode.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bucksaw_faults::wait;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::types::RDKafkaErrorCode;

use super::sample_records::SampleRecords;

/// What Kafka logs when it is ready.
const READY: &str = "Kafka Server started";

/// The maximum time until it is.
const READY_MAX: Duration = Duration::from_secs(120);

/// Partitions of a topic.
const PARTITIONS: usize = 4;

/// The maximum time in which the broker acknowledges what was sent last.
const FLUSH_MAX: Duration = Duration::from_secs(120);

/// A running broker, killed on drop.
pub(super) struct BenchBroker {
    child: Child,
    address: String,
}

impl BenchBroker {
    /// Starts a broker with its files in a directory, and waits until it is ready.
    pub(super) fn start(jars: &Path, dir: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(dir)?;
        let [address, controller] = [free_address()?, free_address()?];
        let properties = dir.join("server.properties");
        let data = dir.join("data");
        fs::write(
            &properties,
            format!(
                "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers={controller}\n\
                 listeners=PLAINTEXT://{address},CONTROLLER://{controller}\nadvertised.listeners=PLAINTEXT://{address}\n\
                 listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
                 controller.listener.names=CONTROLLER\nlog.dirs={}\nnum.partitions={PARTITIONS}\n\
                 offsets.topic.num.partitions=1\noffsets.topic.replication.factor=1\n\
                 group.initial.rebalance.delay.ms=0\n",
                data.display()
            ),
        )?;
        let mut format = java(jars, "kafka.tools.StorageTool");
        format.args(["format", "--standalone", "-t", "4L6g3nShT-eMCtK--X86sw", "-c"]).arg(&properties);
        let output = format.output().context("cannot run `java`")?;
        ensure!(output.status.success(), "Kafka: {}", String::from_utf8_lossy(&output.stderr));
        let log: PathBuf = dir.join("log");
        let file = File::create(&log)?;
        let mut command = java(jars, "kafka.Kafka");
        command.arg(&properties).stdout(file.try_clone()?).stderr(file);
        let mut broker = Self { child: command.spawn().context("cannot run `java`")?, address };
        wait::until("the broker being ready", Duration::from_millis(50), READY_MAX, || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            if broker.child.try_wait()?.is_some() {
                bail!("the broker ended: {text}");
            }
            Ok(text.contains(READY).then_some(()))
        })?;
        Ok(broker)
    }

    /// `HOST:PORT`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Writes records of a size into a topic.
    pub(super) fn fill(&self, topic: &str, records: u64, bytes: u32) -> anyhow::Result<()> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address).set("linger.ms", "20").set("batch.size", "1000000");
        config.set("compression.type", "lz4").set("queue.buffering.max.kbytes", "65536");
        let producer: BaseProducer = config.create()?;
        let mut lines = SampleRecords::new(records, bytes)?;
        for _ in 0..records {
            let (time, value) = lines.next_line();
            let mut record = BaseRecord::<(), [u8]>::to(topic).payload(value).timestamp(i64::try_from(time)?);
            loop {
                match producer.send(record) {
                    Ok(()) => break,
                    Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), unsent)) => {
                        record = unsent;
                        producer.poll(Duration::from_millis(10));
                    }
                    Err((error, _)) => return Err(error.into()),
                }
            }
            producer.poll(Duration::ZERO);
        }
        producer.flush(FLUSH_MAX).context("the broker does not acknowledge the records")
    }
}

impl Drop for BenchBroker {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn java(jars: &Path, class: &str) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", class]);
    command.env("CLASSPATH", jars.join("*")).stdin(Stdio::null());
    command
}

/// An address that is free now.
pub(super) fn free_address() -> anyhow::Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
