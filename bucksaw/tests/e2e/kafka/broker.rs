//! Apache Kafka as a broker of one node, in KRaft mode.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use tempfile::TempDir;

use crate::ports::free_address;
use crate::wait::wait_until;

/// The user of the listener with TLS and SASL.
pub(super) const USER: &str = "bucksaw";
pub(super) const PASSWORD: &str = "open-sesame";

/// What Kafka logs when it is ready.
const READY: &str = "Kafka Server started";

/// A broker that runs or has run, with a listener in plain text and one with TLS and SASL. It is killed when dropped.
pub(crate) struct KafkaBroker {
    dir: TempDir,
    /// The address of the listener in plain text.
    pub(crate) address: String,
    /// The address of the listener with TLS and SASL.
    pub(super) secure_address: String,
    child: Option<Child>,
    starts: usize,
}

impl KafkaBroker {
    /// A ready broker.
    pub(crate) fn start() -> Self {
        let [address, secure_address, controller] = [(); 3].map(|()| free_address());
        let dir = tempfile::tempdir().unwrap();
        let mut broker = Self { dir, address, secure_address, child: None, starts: 0 };
        broker.make_certificate();
        fs::write(broker.file("server.properties"), broker.properties(&controller)).unwrap();
        let mut format = java("kafka.tools.StorageTool");
        format.args(["format", "--standalone", "-t", "4L6g3nShT-eMCtK--X86sw", "-c"]);
        format.arg(broker.file("server.properties"));
        format.args(["--add-scram", &format!("SCRAM-SHA-512=[name={USER},password={PASSWORD}]")]);
        run_quietly(&mut format);
        broker.restart();
        broker
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The certificate of the broker, which signs itself.
    pub(super) fn certificate(&self) -> String {
        self.file("broker.pem").display().to_string()
    }

    fn make_certificate(&self) {
        let keytool = |arguments: &[&str]| {
            let mut command = Command::new("keytool");
            command.args(arguments).args(["-alias", "broker", "-storepass", PASSWORD, "-keystore"]);
            run_quietly(command.arg(self.file("broker.p12")));
        };
        let names = ["-dname", "CN=127.0.0.1", "-ext", "SAN=IP:127.0.0.1"];
        keytool(&[&["-genkeypair", "-keyalg", "EC", "-validity", "30", "-storetype", "PKCS12"][..], &names].concat());
        keytool(&["-exportcert", "-rfc", "-file", &self.certificate()]);
    }

    fn properties(&self, controller: &str) -> String {
        let Self { address, secure_address, .. } = self;
        let (data, keys) = (self.file("data").display().to_string(), self.file("broker.p12").display().to_string());
        let plain =
            format!("org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\";");
        format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers={controller}\n\
             listeners=PLAIN://{address},SECURE://{secure_address},CONTROLLER://{controller}\n\
             advertised.listeners=PLAIN://{address},SECURE://{secure_address}\n\
             listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL\n\
             controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAIN\n\
             sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n\
             listener.name.secure.plain.sasl.jaas.config={plain}\n\
             listener.name.secure.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\n\
             listener.name.secure.ssl.keystore.location={keys}\nlistener.name.secure.ssl.keystore.type=PKCS12\n\
             listener.name.secure.ssl.keystore.password={PASSWORD}\n\
             log.dirs={data}\nnum.partitions=4\noffsets.topic.num.partitions=1\noffsets.topic.replication.factor=1\n\
             transaction.state.log.num.partitions=1\ntransaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=0\ngroup.min.session.timeout.ms=1000\n"
        )
    }

    fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Kills it with SIGKILL, if it runs, and starts it again; returns when it is ready.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let log = File::options().create(true).append(true).open(self.file("log")).unwrap();
        let mut command = java("kafka.Kafka");
        command.arg(self.file("server.properties")).stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap());
        self.starts += 1;
        wait_until("the broker is ready", || {
            let status = self.child.as_mut().and_then(|child| child.try_wait().unwrap());
            assert!(status.is_none(), "the broker ended: {status:?}");
            self.log().matches(READY).count() == self.starts
        });
    }

    /// Kills it with SIGKILL, if it runs.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for KafkaBroker {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            let log = self.log();
            let last: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("the last lines of the broker, latest first:\n{}", last.join("\n"));
        }
    }
}

/// A class of Kafka in a small virtual machine.
fn java(class: &str) -> Command {
    let jars = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/clients/kafka/lib");
    assert!(jars.exists(), "Kafka is missing: run `make clients`, which needs Java 17 and Maven");
    let mut command = Command::new("java");
    command.args(["-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", class]);
    command.env("CLASSPATH", jars.join("*")).stdin(Stdio::null());
    command
}

fn run_quietly(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}: Java 17 is missing"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
