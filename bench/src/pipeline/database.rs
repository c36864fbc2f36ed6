//! A ClickHouse server: that of the package which `make clickhouse` installs.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bucksaw_faults::wait;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::broker::free_address;
use crate::node::http_client;

/// The maximum time until it answers.
const READY_MAX: Duration = Duration::from_secs(60);

/// Its settings: without pools of their own size, background work would not run.
const CONFIG: &str = "<clickhouse>
    <background_pool_size>4</background_pool_size>
    <background_schedule_pool_size>4</background_schedule_pool_size>
    <background_common_pool_size>2</background_common_pool_size>
    <max_server_memory_usage>6000000000</max_server_memory_usage>
</clickhouse>
";

/// A running server, killed on drop.
pub(crate) struct BenchDatabase {
    child: Child,
    address: String,
}

impl BenchDatabase {
    /// Starts the server that is installed in a directory, with its files in `dir`.
    pub(crate) fn start(installed: &Path, dir: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(dir)?;
        let installed = installed.canonicalize().with_context(|| format!("{} is missing", installed.display()))?;
        let address = free_address()?;
        let (host, port) = address.rsplit_once(':').context("an address has a port")?;
        let (stop, config, log) = (dir.join("stop"), dir.join("config.xml"), dir.join("log"));
        mknodat(CWD, &stop, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        fs::write(&config, CONFIG)?;
        // The last statement waits until someone writes to the pipe, so the program does not end.
        let statements = format!(
            "SYSTEM START LISTEN HTTP; SELECT count() FROM file('{}', 'LineAsString', 'l String')",
            stop.display()
        );
        let mut command = Command::new(installed.join("launcher"));
        command.arg(installed.join("libchdb.so")).arg("--config-file").arg(config);
        command.arg("--path").arg(dir.join("data")).args(["--listen_host", host, "--http_port", port]);
        command.args(["--query", &statements]).current_dir(dir).env("TZ", "UTC");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let mut database = Self { child: command.spawn().context("cannot start ClickHouse")?, address };
        wait::until("ClickHouse being ready", Duration::from_millis(50), READY_MAX, || {
            if database.child.try_wait()?.is_some() {
                bail!("ClickHouse ended: {}", fs::read_to_string(&log).unwrap_or_default());
            }
            Ok(database.ask("SELECT 1").ok())
        })?;
        Ok(database)
    }

    /// The value of `--store` for a database of this server.
    pub(super) fn url(&self, database: &str) -> String {
        format!("clickhouse://{}/{database}", self.address)
    }

    /// The answer to a statement, without the last line end.
    pub(crate) fn ask(&self, sql: &str) -> anyhow::Result<String> {
        self.ask_bytes(sql.as_bytes()).with_context(|| sql.to_owned())
    }

    /// The same for a statement with the data behind it that it inserts.
    pub(crate) fn ask_bytes(&self, statement: &[u8]) -> anyhow::Result<String> {
        let answer = http_client(&self.address)?.call("POST", "/", &[], statement)?;
        ensure!(answer.status == 200, "{}", answer.text());
        Ok(answer.text().trim_end_matches('\n').to_owned())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for BenchDatabase {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
