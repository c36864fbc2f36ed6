//! Nodes and other commands as processes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};

use crate::client::{Response, call, encode};
use crate::ports::free_address;
use crate::wait::{WAIT_MAX, wait_for, wait_until};

/// The program with these arguments, without the caller's environment.
pub(crate) fn bucksaw<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bucksaw"));
    // The zone of times.
    command.args(arguments).env_clear().env("TZ", "UTC").stdin(Stdio::null());
    command
}

/// `serve` on a directory, on free ports unless the arguments set them. A restart may be given the same ones.
pub(crate) fn serve<S: AsRef<OsStr>>(dir: &Path, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = bucksaw(["serve", "--data-dir"]);
    command.arg(dir).args(arguments);
    for listener in ["--listen", "--listen-fast", "--listen-durable", "--listen-bulk", "--listen-cluster"] {
        if !command.get_args().any(|argument| argument == listener) {
            command.args([listener, &free_address()]);
        }
    }
    command
}

/// The same command with a limit of open files.
fn limited(command: &Command, descriptors: usize) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "ulimit -n \"$0\"; exec \"$@\"", &descriptors.to_string()]);
    shell.arg(command.get_program()).args(command.get_args()).env_clear().stdin(Stdio::null());
    shell
}

/// Runs a command with this standard input until it ends. It is killed if it does not, so that its exit code fails the test.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let (ended, end) = channel::<()>();
    thread::scope(|scope| {
        // A command that does not read to the end reports that by its exit code.
        scope.spawn(move || pipe.write_all(input).ok());
        scope.spawn(move || {
            if end.recv_timeout(WAIT_MAX) == Err(RecvTimeoutError::Timeout) {
                // Fails if it has just ended.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        });
        let output = child.wait_with_output().unwrap();
        drop(ended);
        output
    })
}

/// The value of a metric in the text of a scrape; of one with labels, the sum over them.
pub(crate) fn metric_value(text: &str, name: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let value = rest.strip_prefix(' ').or_else(|| rest.strip_prefix('{')?.split_once("} ").map(|(_, value)| value));
        value?.trim().parse::<f64>().ok()
    };
    let values: Vec<f64> = text.lines().filter_map(value).collect();
    assert!(!values.is_empty(), "there is no metric {name} in\n{text}");
    values.iter().sum()
}

/// A node that runs or has run. It is killed when dropped.
pub(crate) struct TestServer {
    dir: PathBuf,
    arguments: Vec<String>,
    /// The limit of open files, if it differs from this process's.
    descriptors: Option<usize>,
    addresses: BTreeMap<String, String>,
    child: Option<Child>,
    log: NamedTempFile,
    /// Removes a temporary directory when dropped.
    home: Option<TempDir>,
}

impl TestServer {
    /// A ready node with its own directory and further arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("data");
        let mut node = Self::start_in(&dir, arguments);
        node.home = Some(home);
        node
    }

    /// A ready node on this directory.
    pub(crate) fn start_in(dir: &Path, arguments: &[&str]) -> Self {
        Self::try_start_in(dir, arguments).unwrap_or_else(|(status, log)| panic!("the node ended: {status}\n{log}"))
    }

    /// A ready node on this directory, or the exit status and the log if it ended before.
    pub(crate) fn try_start_in(dir: &Path, arguments: &[&str]) -> Result<Self, (ExitStatus, String)> {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let log = NamedTempFile::new().unwrap();
        let (dir, addresses) = (dir.to_owned(), BTreeMap::new());
        let mut node = Self { dir, arguments, descriptors: None, addresses, child: None, log, home: None };
        node.try_restart()?;
        Ok(node)
    }

    /// A ready node with a limit of open files, or the exit status and the log if it ended before.
    pub(crate) fn try_start_limited(descriptors: usize, arguments: &[&str]) -> Result<Self, (ExitStatus, String)> {
        let home = tempfile::tempdir().unwrap();
        let mut node = Self::try_start_limited_in(&home.path().join("data"), descriptors, arguments)?;
        node.home = Some(home);
        Ok(node)
    }

    /// The same on this directory.
    pub(crate) fn try_start_limited_in(
        dir: &Path,
        descriptors: usize,
        arguments: &[&str],
    ) -> Result<Self, (ExitStatus, String)> {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let (dir, log) = (dir.to_owned(), NamedTempFile::new().unwrap());
        let (descriptors, addresses) = (Some(descriptors), BTreeMap::new());
        let mut node = Self { dir, arguments, descriptors, addresses, child: None, log, home: None };
        node.try_restart()?;
        Ok(node)
    }

    /// Restarts it on its directory and waits until it is ready. Kills it first if it runs.
    pub(crate) fn restart(&mut self) {
        self.try_restart().unwrap_or_else(|(status, log)| panic!("the node ended: {status}\n{log}"));
    }

    /// The same with other arguments.
    pub(crate) fn restart_with(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self.restart();
    }

    /// Restarts it like [`Self::restart`], or returns the exit status and the log if it ended before it was ready.
    pub(crate) fn try_restart(&mut self) -> Result<(), (ExitStatus, String)> {
        let file = self.spawn();
        let ready = wait_for("the node is ready", || {
            if let Some(status) = self.try_wait() {
                return Some(Err((status, self.log())));
            }
            self.addresses = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
            if self.arguments.iter().any(|argument| argument == "--tls-cert") {
                return self.log().contains(" ready ").then_some(Ok(()));
            }
            let answer = call(self.address("http"), "GET", "/-/ready", &[], b"").ok()?;
            // A node on a full disk runs, but is not ready.
            (answer.status == 200 || answer.text().starts_with("disk full")).then_some(Ok(()))
        });
        if ready.is_err() {
            self.child = None;
        }
        ready
    }

    /// Starts it with other arguments without waiting; its addresses are unchanged if the arguments fix them.
    pub(crate) fn spawn_with(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self.spawn();
    }

    /// Starts it without waiting; returns the file that will have its addresses. Kills it first if it runs.
    pub(crate) fn spawn(&mut self) -> PathBuf {
        self.kill();
        let file = self.dir.join("addresses.json");
        // Of the previous process; removing it fails if there is none.
        let _ = fs::remove_file(&file);
        let log = File::options().append(true).open(self.log.path()).unwrap();
        let mut command = serve(&self.dir, &self.arguments);
        if let Some(descriptors) = self.descriptors {
            command = limited(&command, descriptors);
        }
        self.child = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        file
    }

    /// The exit status, if the process has ended.
    pub(crate) fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().unwrap())
    }

    /// Kills it with SIGKILL: nothing is flushed.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Sends SIGTERM.
    pub(crate) fn send_sigterm(&self) {
        let pid = rustix::process::Pid::from_child(self.child.as_ref().unwrap());
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Sends SIGTERM and waits until it ends.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.send_sigterm();
        let status = wait_for("the node is stopping", || self.try_wait());
        self.child = None;
        status
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// The data directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The address of a listener: `http`, `fast`, `durable`, `bulk`.
    pub(crate) fn address(&self, name: &str) -> &str {
        &self.addresses[name]
    }

    /// The value of `--addr`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address("http"))
    }

    /// Its log since the first start.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log.path()).unwrap()).into_owned()
    }

    /// Runs a command against this node, such as `query` or `status`.
    pub(crate) fn cli<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Output {
        let (command, rest) = arguments.split_first().unwrap();
        bucksaw([command.as_ref(), "--addr".as_ref(), self.url().as_ref()]).args(rest).output().unwrap()
    }

    /// Runs `forward` to a listener of this node with this standard input.
    pub(crate) fn forward(&self, listener: &str, arguments: &[&str], input: &[u8]) -> Output {
        run(bucksaw(["forward", "--to", self.address(listener)]).args(arguments), input)
    }

    /// A connection to a listener.
    pub(crate) fn connect(&self, listener: &str) -> TcpStream {
        let stream = TcpStream::connect(self.address(listener)).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        stream.set_write_timeout(Some(WAIT_MAX)).unwrap();
        stream
    }

    /// A GET request.
    pub(crate) fn get(&self, target: &str) -> Response {
        self.call("GET", target, &[], b"")
    }

    /// A POST request.
    pub(crate) fn post(&self, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.call("POST", target, headers, body)
    }

    /// Any request.
    pub(crate) fn call(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let answer = call(self.address("http"), method, target, headers, body);
        answer.unwrap_or_else(|error| panic!("{method} {target}: {error}"))
    }

    /// The number of records that match a filter, over all time.
    pub(crate) fn count(&self, filter: impl AsRef<[u8]>) -> u64 {
        let counted = self.get(&format!("/api/v1/count?from=30d&q={}", encode(filter))).expect(200).json();
        assert_eq!(counted["stats"]["partial"], false, "{counted}");
        counted["count"].as_u64().unwrap()
    }

    /// Its own entry in the cluster status.
    pub(crate) fn status(&self) -> Value {
        self.get("/api/v1/cluster").expect(200).json()["nodes"][0].clone()
    }

    /// The value of a metric; of one with labels, the sum over them.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        metric_value(&self.get("/metrics").expect(200).text(), name)
    }

    /// The peak memory of the process, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Waits until every record is stored.
    pub(crate) fn wait_stored(&self) {
        wait_until("the queue is empty", || self.status()["queue"]["segments"] == 0);
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("the log of the node in {}:\n{}", self.dir.display(), self.log());
        }
    }
}
