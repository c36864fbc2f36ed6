//! A real ClickHouse server: that of the package which `make clickhouse` installs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::Mode;
use tempfile::TempDir;

use crate::client::call;
use crate::ports::free_port;
use crate::wait::wait_for;

/// A server that runs or has run, with a directory of its own. It is killed when dropped.
pub(crate) struct ClickHouseServer {
    dir: TempDir,
    pub(crate) http_port: u16,
    /// The port for other shards, and the ports of all shards.
    shard: Option<(u16, [u16; 2])>,
    child: Option<Child>,
}

impl ClickHouseServer {
    /// A server that answers.
    pub(crate) fn start() -> Self {
        Self::start_as(None)
    }

    /// Two servers that know each other as the shards of the cluster `shards`.
    pub(crate) fn start_shards() -> [Self; 2] {
        let ports = [free_port(), free_port()];
        ports.map(|port| Self::start_as(Some((port, ports))))
    }

    fn start_as(shard: Option<(u16, [u16; 2])>) -> Self {
        let mut server = Self { dir: tempfile::tempdir().unwrap(), http_port: free_port(), shard, child: None };
        server.restart();
        server
    }

    /// Starts it on its directory and port, after killing it if it runs.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let installed = installed();
        let (stop, data) = (self.dir.path().join("stop"), self.dir.path().join("data"));
        if !stop.exists() {
            rustix::fs::mknodat(rustix::fs::CWD, &stop, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
                .unwrap();
        }
        let config = self.dir.path().join("config.xml");
        let shard = |port: &u16| format!("<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>");
        let shards = self.shard.iter().flat_map(|(_, ports)| ports).map(shard).collect::<String>();
        let shards = format!("<remote_servers><shards>{shards}</shards></remote_servers>");
        let shards = if self.shard.is_some() { shards } else { String::new() };
        fs::write(&config, CONFIG.replace("</clickhouse>", &format!("{shards}</clickhouse>"))).unwrap();
        // A process that was killed leaves these.
        let _ = fs::remove_file(data.join("status"));
        let log = File::create(self.dir.path().join("log")).unwrap();
        // The last statement waits until someone writes to the pipe, so the program does not end.
        let listens = if self.shard.is_some() {
            "SYSTEM START LISTEN TCP; SYSTEM START LISTEN HTTP"
        } else {
            "SYSTEM START LISTEN HTTP"
        };
        let statements =
            format!("{listens}; SELECT count() FROM file('{}', 'LineAsString', 'l String')", stop.display());
        let mut command = Command::new(installed.join("launcher"));
        command.arg(installed.join("libchdb.so")).arg("--config-file").arg(config).arg("--path").arg(data);
        command.args(["--listen_host", "127.0.0.1", "--http_port", &self.http_port.to_string()]);
        if let Some((port, _)) = self.shard {
            command.args(["--tcp_port", &port.to_string()]);
        }
        command.args(["--query", &statements]).current_dir(self.dir.path()).env_clear().env("TZ", "UTC");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.child = Some(child);
        wait_for("ClickHouse answers", || {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "ClickHouse ended: {ended:?}\n{}", self.log());
            call(&self.authority(), "GET", "/ping", &[], b"").ok().filter(|answer| answer.status == 200)
        });
    }

    /// Kills it with SIGKILL: nothing is flushed.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops all of its threads, so that connections stay open and nothing is answered.
    pub(crate) fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// The opposite of [`Self::freeze`].
    pub(crate) fn thaw(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(self.child.as_ref().unwrap());
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// The value of `--store` for a database of this server.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("clickhouse://{}/{database}", self.authority())
    }

    /// The answer to a statement, without the last line end.
    pub(crate) fn ask(&self, sql: &str) -> String {
        let answer = call(&self.authority(), "POST", "/", &[], sql.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{sql}: {}", answer.text());
        answer.text().trim_end_matches('\n').to_owned()
    }

    fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.http_port)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for ClickHouseServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Small pools and caches: several servers run on one machine.
const CONFIG: &str = "<clickhouse>
    <background_pool_size>4</background_pool_size>
    <background_schedule_pool_size>4</background_schedule_pool_size>
    <background_common_pool_size>2</background_common_pool_size>
    <mark_cache_size>67108864</mark_cache_size>
    <max_server_memory_usage>4000000000</max_server_memory_usage>
</clickhouse>
";

/// The directory with the installed program.
fn installed() -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/clients/clickhouse");
    assert!(dir.join("launcher").exists(), "ClickHouse is not installed for tests: run `make clickhouse`");
    dir.canonicalize().unwrap()
}
