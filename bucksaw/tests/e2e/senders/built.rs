//! Senders that take minutes to build: `make senders` builds them, runs these tests, and records what they send.
//!
//! Each sender is configured by its page in `docs/senders`. What was recorded is replayed by [`super::replay`], without the
//! senders.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::page::{docker_options, file_of_page};
use super::recorder::Recorder;
use super::running::RunningSender;
use super::{SenderRecord, all_are_stored_as, stored};
use crate::node::TestServer;
use crate::ports::free_address;
use crate::wait::wait_until;

/// Records that each sender sends.
const RECORDS: usize = 200;

/// Records of a recording, so that it stays small.
pub(super) const RECORDED: usize = 12;

/// The file in which senders find their records.
const LOG_FILE: &str = "orders.log";

/// Replaces the addresses and paths in the text of a page.
type Adapt<'a> = &'a dyn Fn(&str) -> String;

/// A sender, and what its protocol offers.
pub(super) struct BuiltSender {
    /// The name of its recording.
    pub(super) name: &'static str,
    /// The flag of the listener.
    pub(super) flag: &'static str,
    /// The address of the listener on the page.
    port: u16,
    /// The durabilities that the sender, or else its listener, can be given.
    durabilities: &'static [&'static str],
    /// What happens when the node is killed.
    on_kill: OnKill,
    /// What the sender reads.
    input: SenderInput,
    /// The command, given its directory.
    command: fn(&Path, Adapt<'_>) -> Command,
    /// How a record is stored.
    stated: fn(usize) -> Value,
    /// The parts of a stored record that are compared.
    pub(super) view: fn(SenderRecord) -> SenderRecord,
}

#[derive(Clone, Copy, PartialEq)]
enum OnKill {
    /// Records are lost, so the node stays.
    Loses,
    /// Records whose answer was lost are stored twice.
    Repeats,
    /// Each record is stored once.
    Once,
}

#[derive(Clone, Copy, PartialEq)]
enum SenderInput {
    /// JSON objects in a file.
    File,
    /// A time and a text per line on standard input, until its end.
    Container,
}

impl SenderInput {
    /// Time between two records, so that a node is restarted while they are sent. Senders that read files look at them a few
    /// times per second.
    fn pause(self) -> Duration {
        Duration::from_millis(if self == Self::File { 15 } else { 2 })
    }
}

fn text(n: usize) -> String {
    format!("order {n} of \"Müller & Söhne\" took {} ms, 100 % done", n * 7 % 1000)
}

/// The text of a record of a file. Some have several lines.
fn message(n: usize) -> String {
    let trace = if n % 7 == 3 { "\n  at Checkout.pay(Checkout.java:42)\n  at Main.main" } else { "" };
    text(n) + trace
}

fn level(n: usize) -> &'static str {
    ["INFO", "WARN", "ERROR", "DEBUG"][n % 4]
}

/// The time of a record, with this fraction of a second.
fn time(n: usize, fraction: &str) -> String {
    format!("2026-01-05T10:{:02}:{:02}.{fraction}Z", n / 60, n % 60)
}

fn micros(n: usize) -> String {
    time(n, "123456")
}

fn millis(n: usize) -> String {
    time(n, "123000")
}

fn line(input: SenderInput, n: usize) -> String {
    match input {
        SenderInput::File => {
            let object = json!({"time": micros(n), "level": level(n), "message": message(n), "order": n.to_string()});
            format!("{object}\n")
        }
        SenderInput::Container => format!("{} {}\n", micros(n), text(n)),
    }
}

fn program(name: &str) -> Command {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/clients/go").join(name);
    assert!(file.exists(), "{name} is missing: run `make senders`");
    Command::new(file)
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let file = dir.join(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

fn collector(dir: &Path, adapt: Adapt<'_>, more: &[&str]) -> Command {
    let mut command = program("collector");
    for name in ["config.yaml"].iter().chain(more) {
        let file = write(dir, name, &adapt(&file_of_page("opentelemetry-collector", name)));
        command.args(["--config", &file]);
    }
    // Its own metrics would have a fixed port.
    let no_metrics = write(dir, "metrics.yaml", "service: {telemetry: {metrics: {level: none}}}\n");
    command.args(["--config", &no_metrics]);
    command
}

fn stated_by_collector(n: usize) -> Value {
    let attributes = json!({"severity_text": level(n), "order": n.to_string(), "log.file.name": LOG_FILE});
    json!({"line": message(n), "time": micros(n), "labels": {"service.name": "shop"}, "attributes": attributes})
}

fn promtail(dir: &Path, adapt: Adapt<'_>) -> Command {
    let config = adapt(&file_of_page("promtail", "promtail.yaml")).replace("9080", "0");
    std::fs::create_dir_all(dir.join("lib/promtail")).unwrap();
    let mut command = program("promtail");
    command.args(["-config.file", &write(dir, "promtail.yaml", &config)]);
    command
}

fn stated_by_promtail(n: usize) -> Value {
    let labels = json!({"app": "shop", "level": level(n)});
    json!({"line": message(n), "time": micros(n), "labels": labels, "attributes": {"order": n.to_string()}})
}

fn filebeat(dir: &Path, adapt: Adapt<'_>) -> Command {
    let mut command = program("filebeat");
    command.args(["-c", &write(dir, "filebeat.yml", &adapt(&file_of_page("filebeat", "filebeat.yml")))]);
    command.args(["-e", "--path.home"]).arg(dir.join("lib"));
    // Its filter of system calls predates the C library that it is built with.
    command.args(["-E", "seccomp.enabled=false"]);
    if dir.join(SMALL).exists() {
        command.args(["-E", "setup.template.enabled=false", "-E", "setup.ilm.enabled=false"]);
    }
    command
}

/// A file whose presence asks for as few bytes as possible.
const SMALL: &str = "small";

fn stated_by_filebeat(n: usize) -> Value {
    let document = json!({"level": level(n), "order": n.to_string(), "time": micros(n), "service": {"name": "shop"}});
    json!({"line": message(n), "time": millis(n), "labels": {"service.name": "shop"}, "attributes": document})
}

/// The document in the line of a record: its message, and its other members as attributes.
fn document(mut record: SenderRecord) -> SenderRecord {
    let mut document: Value = serde_json::from_str(record.line()).unwrap();
    record.0["line"] = document["message"].take();
    record.0["attributes"] = document;
    record
}

fn docker(driver: &str, adapt: Adapt<'_>) -> Command {
    let mut command = program("docker-logs");
    command.arg(driver).args(docker_options(driver).iter().map(|option| adapt(option)));
    // Several batches instead of one at the end.
    command.env("SPLUNK_LOGGING_DRIVER_POST_MESSAGES_FREQUENCY", "50ms");
    command
}

fn stated_by_docker_to_fluentd(n: usize) -> Value {
    let attributes = json!({"source": "stdout", "team": "checkout", "container_id": "4bf92f3577b34da6".repeat(4)});
    let labels = json!({"container.name": "shop", "tag": "4bf92f3577b3"});
    json!({"line": text(n), "time": micros(n), "labels": labels, "attributes": attributes})
}

fn stated_by_docker_to_splunk(n: usize) -> Value {
    json!({"line": text(n), "time": micros(n), "labels": {}, "attributes": {}})
}

fn stated_by_docker_to_gelf(n: usize) -> Value {
    let attributes = json!({"severity_text": "info", "container.name": "shop", "team": "checkout",
        "container.image.name": "shop:1.2"});
    json!({"line": text(n), "time": millis(n), "labels": {"service.name": "shop"}, "attributes": attributes})
}

/// This driver states its own time.
fn stated_by_docker_to_syslog(n: usize) -> Value {
    let attributes = json!({"severity_text": "info", "syslog.facility": "daemon", "syslog.msgid": "shop"});
    json!({"line": text(n), "labels": {"service.name": "shop"}, "attributes": attributes})
}

const OF_SENDER: &[&str] = &["fast", "durable"];

/// All senders that `make senders` builds.
pub(super) const BUILT: &[BuiltSender] = &[
    BuiltSender {
        name: "collector-grpc",
        flag: "--listen-otlp",
        port: 4317,
        durabilities: OF_SENDER,
        on_kill: OnKill::Repeats,
        input: SenderInput::File,
        command: |dir, adapt| collector(dir, adapt, &[]),
        stated: stated_by_collector,
        view: |record| record,
    },
    BuiltSender {
        name: "collector-http",
        flag: "--listen",
        port: 7650,
        durabilities: OF_SENDER,
        on_kill: OnKill::Repeats,
        input: SenderInput::File,
        command: |dir, adapt| collector(dir, adapt, &["http.yaml"]),
        stated: stated_by_collector,
        view: |record| record,
    },
    BuiltSender {
        name: "promtail",
        flag: "--listen",
        port: 7650,
        durabilities: OF_SENDER,
        on_kill: OnKill::Repeats,
        input: SenderInput::File,
        command: promtail,
        stated: stated_by_promtail,
        view: |record| record,
    },
    BuiltSender {
        name: "filebeat",
        flag: "--listen",
        port: 7650,
        durabilities: OF_SENDER,
        on_kill: OnKill::Repeats,
        input: SenderInput::File,
        command: filebeat,
        stated: stated_by_filebeat,
        view: document,
    },
    BuiltSender {
        name: "docker-fluentd",
        flag: "--listen-fluent",
        port: 24224,
        durabilities: OF_SENDER,
        on_kill: OnKill::Once,
        input: SenderInput::Container,
        command: |_, adapt| docker("fluentd", adapt),
        stated: stated_by_docker_to_fluentd,
        view: |record| record,
    },
    BuiltSender {
        name: "docker-splunk",
        flag: "--listen",
        port: 7650,
        // The driver refuses an address with a query.
        durabilities: &["fast"],
        on_kill: OnKill::Repeats,
        input: SenderInput::Container,
        command: |_, adapt| docker("splunk", adapt),
        stated: stated_by_docker_to_splunk,
        view: |record| record,
    },
    BuiltSender {
        name: "docker-gelf",
        flag: "--listen-gelf",
        port: 12201,
        durabilities: OF_SENDER,
        on_kill: OnKill::Loses,
        input: SenderInput::Container,
        command: |_, adapt| docker("gelf", adapt),
        stated: stated_by_docker_to_gelf,
        view: |record| record,
    },
    BuiltSender {
        name: "docker-syslog",
        flag: "--listen-syslog",
        port: 514,
        durabilities: OF_SENDER,
        on_kill: OnKill::Loses,
        input: SenderInput::Container,
        command: |_, adapt| docker("syslog", adapt),
        stated: stated_by_docker_to_syslog,
        view: |record| record,
    },
];

impl BuiltSender {
    /// How a node stores the first records.
    pub(super) fn stated(&self, count: usize) -> Vec<SenderRecord> {
        (0..count).map(|n| SenderRecord((self.stated)(n))).collect()
    }

    /// A node with the listener at this address. The records are older than any retention.
    pub(super) fn node(&self, address: &str, durability: &str) -> TestServer {
        let mut arguments = vec![self.flag, address, "--retention-age", "none"];
        if self.flag != "--listen" && self.flag != "--listen-otlp" {
            arguments.extend(["--sender-durability", durability]);
        }
        TestServer::start(&arguments)
    }

    fn start(&self, dir: &Path, address: &str, durability: &str) -> RunningSender {
        std::fs::write(dir.join(LOG_FILE), "").unwrap();
        let log_file = dir.join(LOG_FILE).display().to_string();
        let library = dir.join("lib").display().to_string();
        let adapt = |text: &str| {
            let text = text.replace("/var/log/shop/*.log", &log_file).replace("/var/lib", &library);
            let text = text.replace(&format!("127.0.0.1:{}", self.port), address);
            text.replace("durability=durable", &format!("durability={durability}"))
                .replace("durability: durable", &format!("durability: {durability}"))
        };
        RunningSender::start(&mut (self.command)(dir, &adapt), dir)
    }

    fn send(&self, sender: &mut RunningSender, dir: &Path, count: usize) {
        for n in 0..count {
            let line = line(self.input, n);
            match self.input {
                SenderInput::File => sender.append(&dir.join(LOG_FILE), &line),
                SenderInput::Container => sender.write(&line),
            }
            thread::sleep(self.input.pause());
        }
    }

    /// Sends all records to a node, which is killed midway if `is_killed`, and checks what it stores.
    fn check(&self, durability: &str, is_killed: bool) {
        eprintln!("{}: {durability}, {}", self.name, if is_killed { "killed midway" } else { "not killed" });
        let dir = tempfile::tempdir().unwrap();
        // The port must be the same after the restart.
        let address = free_address();
        let mut node = self.node(&address, durability);
        let mut sender = self.start(dir.path(), &address, durability);
        thread::scope(|scope| {
            scope.spawn(|| self.send(&mut sender, dir.path(), RECORDS));
            if is_killed {
                wait_until("the first records", || !stored(&node).is_empty());
                node.restart();
            }
        });
        if self.input == SenderInput::Container {
            sender.end_of_input();
        }
        all_are_stored_as(&node, &self.stated(RECORDS), self.view);
        let count = stored(&node).len();
        assert!(count == RECORDS || is_killed && self.on_kill == OnKill::Repeats, "{count} records of {RECORDS}");
    }

    /// Checks each durability, without and with a kill.
    fn check_all(&self) {
        for durability in self.durabilities {
            self.check(durability, false);
            if self.on_kill != OnKill::Loses {
                self.check(durability, true);
            }
        }
    }

    /// The bytes of each connection on which a sender sends a few records.
    pub(super) fn record(&self) -> Vec<Vec<u8>> {
        let dir = recording_directory(self.name);
        std::fs::write(dir.path().join(SMALL), "").unwrap();
        let node = self.node(&free_address(), "durable");
        let recorder = Recorder::start(node.address(listener_name(self.flag)));
        let mut sender = self.start(dir.path(), recorder.address(), "durable");
        self.send(&mut sender, dir.path(), RECORDED);
        if self.input == SenderInput::Container {
            sender.end_of_input();
        }
        all_are_stored_as(&node, &self.stated(RECORDED), self.view);
        drop(sender);
        recorder.connections()
    }
}

/// The name of a listener in `addresses.json`.
pub(super) fn listener_name(flag: &str) -> &str {
    if flag == "--listen" { "http" } else { flag.trim_start_matches("--listen-") }
}

/// A directory with the same name on every machine, because some senders state it.
fn recording_directory(name: &str) -> TempDir {
    let path = Path::new("/tmp").join(format!("bucksaw-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    let builder = tempfile::Builder::new().prefix(path.file_name().unwrap()).rand_bytes(0).tempdir_in("/tmp");
    builder.unwrap()
}

fn sender(name: &str) -> &'static BuiltSender {
    BUILT.iter().find(|sender| sender.name == name).unwrap()
}

#[test]
#[ignore = "needs the programs of `make senders`"]
fn collector_over_grpc() {
    sender("collector-grpc").check_all();
}

#[test]
#[ignore = "needs the programs of `make senders`"]
fn collector_over_http() {
    sender("collector-http").check_all();
}

#[test]
#[ignore = "needs the programs of `make senders`"]
fn promtail_over_http() {
    sender("promtail").check_all();
}

#[test]
#[ignore = "needs the programs of `make senders`"]
fn filebeat_over_http() {
    sender("filebeat").check_all();
}

#[test]
#[ignore = "needs the programs of `make senders`"]
fn docker_to_fluentd() {
    sender("docker-fluentd").check_all();
}

#[test]
#[ignore = "needs the programs of `make senders`"]
fn docker_to_splunk() {
    sender("docker-splunk").check_all();
}

#[test]
#[ignore = "needs the programs of `make senders`"]
fn docker_to_gelf() {
    sender("docker-gelf").check_all();
}

#[test]
#[ignore = "needs the programs of `make senders`"]
fn docker_to_syslog() {
    sender("docker-syslog").check_all();
}
