//! The thread that reads files: decides when to scan, to read and to wait.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bucksaw_buffer::BufferError;
use bucksaw_env::Env;
use bucksaw_tailer::{PathPattern, Tailer};
use tracing::{info, warn};

use super::config::FilesConfig;
use super::shared::SharedCollector;
use super::watcher::Watcher;

/// The longest wait, so that a stop is noticed.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// The same without inputs. A stop ends this wait.
const WAIT_WITHOUT_INPUTS: Duration = Duration::from_secs(60);

/// The shortest time between two scans.
const SCAN_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Scans take at most this part of the time, also in a directory in which names change all the time.
const SCAN_SHARE: u32 = 50;

/// How often acknowledgements are written while batches follow each other.
const ACK_INTERVAL: Duration = Duration::from_secs(1);

/// Reads files until the stop. `shared` is locked for each step, so that others can read its counters. Without inputs, a stop
/// unparks the thread.
///
/// # Errors
/// The buffer cannot be written at the first start.
pub(super) fn drive(
    shared: &SharedCollector,
    files: &FilesConfig,
    env: &Env,
    stop: &AtomicBool,
    has_inputs: bool,
) -> Result<(), BufferError> {
    let mut watcher = Watcher::new();
    let mut reporter = GapReporter::default();
    let (mut next_scan, mut scan_allowed, mut next_ack) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut is_scan_due = true;
    while !stop.load(Ordering::Relaxed) {
        let mut collector = shared.drive();
        let now = env.clock.uptime();
        if !files.tailer.patterns.is_empty() && (now >= next_scan || is_scan_due && now >= scan_allowed) {
            collector.scan()?;
            if next_scan.is_zero() {
                log_first_scan(&collector.tailer, &files.tailer.patterns);
            }
            watcher.watch_directories(collector.tailer.directories());
            let after = env.clock.uptime();
            next_scan = after + files.scan_interval;
            scan_allowed = after + SCAN_INTERVAL_MIN.max((after - now) * SCAN_SHARE);
            is_scan_due = collector.tailer.is_searching();
        }
        let report = collector.step(now);
        is_scan_due |= report.is_scan_due;
        for key in collector.tailer.take_idled() {
            // What was written before the watch is found by the check.
            if collector.tailer.idle_path(key).is_some_and(|path| watcher.watch_file(key, path)) {
                collector.tailer.check_growth(key);
            }
        }
        if now >= next_ack {
            // Before the positions are saved, after which no later start finds these gaps.
            reporter.report(&collector.tailer);
            collector.write_ack();
            next_ack = now + ACK_INTERVAL;
        }
        let is_quiet = !report.has_unacked && collector.tailer.active_files().next().is_none();
        drop(collector);
        let wait = match (report.has_more, is_quiet) {
            (true, _) => Duration::ZERO,
            (false, false) => files.read_interval,
            (false, true) => WAIT_MAX,
        };
        let wait = if is_scan_due { wait.min(SCAN_INTERVAL_MIN) } else { wait };
        if !has_inputs && is_quiet {
            shared.drive().write_ack();
            thread::park_timeout(WAIT_WITHOUT_INPUTS);
            continue;
        }
        let events = watcher.wait(wait);
        is_scan_due |= events.is_scan_due;
        if !events.grown.is_empty() {
            let tailer = &mut shared.drive().tailer;
            events.grown.into_iter().for_each(|key| tailer.wake(key));
        }
    }
    reporter.report(&shared.drive().tailer);
    Ok(())
}

fn log_first_scan(tailer: &Tailer, patterns: &[PathPattern]) {
    match tailer.positions().count() {
        0 => {
            let patterns: Vec<&str> = patterns.iter().map(PathPattern::text).collect();
            warn!(patterns = patterns.join(" "), "no file that can be read is there yet: waiting for one");
        }
        files => info!(files, "following"),
    }
}

/// Logs gaps and files that cannot be read.
#[derive(Debug, Default)]
struct GapReporter {
    gaps: u64,
    problems: BTreeMap<PathBuf, String>,
}

impl GapReporter {
    fn report(&mut self, tailer: &Tailer) {
        let gaps = tailer.counters().gaps();
        let new = usize::try_from(gaps - self.gaps).unwrap_or(usize::MAX);
        self.gaps = gaps;
        let kept: Vec<_> = tailer.gaps().collect();
        for gap in kept.iter().skip(kept.len().saturating_sub(new)) {
            warn!(path = %gap.path.display(), bytes_known = gap.bytes, reason = %gap.reason, "lines of a file may be missing");
        }
        if new > kept.len() {
            warn!(gaps = new - kept.len(), "lines of more files may be missing");
        }
        let problems: BTreeMap<PathBuf, String> =
            tailer.problems().map(|(path, reason)| (path.to_owned(), reason.to_owned())).collect();
        for (path, reason) in &problems {
            if self.problems.get(path) != Some(reason) {
                warn!(path = %path.display(), reason, "not read");
            }
        }
        self.problems = problems;
    }
}
