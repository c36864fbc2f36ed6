//! Runs the reading thread and the connections side by side.
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};

use bucksaw_env::{Env, FileLock, wait_for_stop};
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::agent_id::agent_id;
use super::collector::{Backlog, Collector};
use super::config::FilesConfig;
use super::driver::drive;
use super::shared::SharedCollector;
use crate::connection_loop::ConnectionLoop;
use crate::journal::{JournalConfig, JournalReader};
use crate::queue::{QueueInput, QueueRunner};
use crate::run::Summary;
use crate::send_window::SendWindow;
use crate::status::WatchedFiles;
use crate::{Config, EventRules, ForwardError};

/// What an agent ships besides files.
#[derive(Default)]
pub struct OtherInputs {
    /// The queue of local listeners.
    pub queue: Option<QueueInput>,
    /// Which entries of systemd's journal.
    pub journal: Option<JournalConfig>,
    /// The rules for what arrives by these, which the listeners apply themselves.
    pub rules: Option<Arc<EventRules>>,
}

/// Ships files and the other inputs until the stop. What is then unacknowledged stays in the state directory, for the next
/// start. The caller has it locked with [`lock_state`].
///
/// # Errors
/// The state directory cannot be written or is of another version; `journalctl` cannot be run; no address is configured.
pub async fn run_files(
    config: Config,
    files: FilesConfig,
    others: OtherInputs,
    env: Env,
    mut stop: watch::Receiver<bool>,
) -> Result<(Summary, Backlog), ForwardError> {
    if config.addresses.is_empty() {
        return Err(ForwardError::NoAddress);
    }
    let state_error = |reason: String| ForwardError::State { dir: files.state_dir.clone(), reason };
    let id = agent_id(&env, &files.state_dir).map_err(|error| state_error(state_problem(&files.state_dir, &error)))?;
    let window = Arc::new(SendWindow::new(config.window_bytes));
    let collector = Collector::open(&config, &files, &env, Arc::clone(&window));
    let collector = collector.map_err(|error| state_error(error.to_string()))?;
    let collector = Arc::new(SharedCollector::new(collector));
    let OtherInputs { queue, journal, rules } = others;
    let journal =
        journal.map(|journal| JournalReader::start(journal, &config, rules.clone(), &env, &collector)).transpose();
    let mut journal = journal.map_err(ForwardError::Journal)?;
    let reader = Reader::start(&collector, &files, &env, journal.is_some())?;
    let mut queue = queue.map(|queue| QueueRunner::new(queue, &window, &config.labels, &env));
    // The collector has the configuration, and so the monitor.
    let (watched, clock) = (Arc::downgrade(&collector), Arc::clone(&env.clock));
    let queue_counts = queue.as_ref().map(QueueRunner::counts);
    let event_rules = rules.clone();
    let status = move |files_max| {
        let read = |collector: &mut Collector| collector.status(clock.uptime(), files_max);
        let mut status = watched.upgrade().map(|watched| watched.read(read)).unwrap_or_default();
        let (dropped, segments) = queue_counts.as_ref().map(|counts| counts()).unwrap_or_default();
        status.dropped_records += dropped;
        status.queue_segments = segments;
        status.lines += event_rules.as_ref().map(|rules| rules.totals()).unwrap_or_default();
        status
    };
    config.monitor.attach(&env, window.status_reader(), Some(WatchedFiles { id, status: Box::new(status) }));
    let queued = queue.as_ref().map(QueueRunner::run);
    let mut queued = std::pin::pin!(async {
        match queued {
            Some(queued) => queued.await,
            None => std::future::pending().await,
        }
    });
    let mut journal_ended = std::pin::pin!(wait_ended(journal.as_mut().and_then(JournalReader::take_ended)));
    let mut shipping = std::pin::pin!(ConnectionLoop::new(&config, &env, &window).run());
    let Reader { stop: stopping, mut ended, thread } = reader;
    let read = tokio::select! {
        biased;
        // First, so that the connection finds what was moved into the window.
        never = &mut queued => match never {},
        // The window does not end before the reader.
        _ = &mut shipping => Ok(()),
        () = &mut journal_ended => Err("a thread of the agent panicked".to_owned()),
        () = wait_for_stop(&mut stop) => {
            stopping.store(true, Ordering::Relaxed);
            thread.unpark();
            let inputs_end = async {
                if let Some(mut journal) = journal.take() {
                    // It ends within its longest wait.
                    let _ = spawn_blocking(move || journal.stop()).await;
                }
                if let Some(queue) = &mut queue {
                    queue.drain(config.stop_timeout).await;
                }
                (&mut ended).await.unwrap_or(Ok(()))
            };
            // What is in the window is sent while the inputs end.
            tokio::select! {
                never = &mut queued => match never {},
                _ = &mut shipping => Ok(()),
                ended = inputs_end => ended,
            }
        }
        ended = &mut ended => ended.unwrap_or(Err("the reading thread panicked".to_owned())),
    };
    window.end_input();
    let reconnects = timeout(config.stop_timeout, &mut shipping).await.unwrap_or_default();
    let (backlog, lines) = collector.read(|collector| {
        collector.save();
        (collector.backlog(), collector.line_totals())
    });
    let mut lines = lines;
    lines += rules.map(|rules| rules.totals()).unwrap_or_default();
    let (queue_dropped, queue_segments) = queue.as_ref().map(QueueRunner::backlog).unwrap_or_default();
    let dropped_records = backlog.dropped_records + queue_dropped;
    let backlog = Backlog { dropped_records, queue_segments, ..backlog };
    read.map_err(state_error)?;
    let shipped = window.acked_totals();
    Ok((Summary { records: shipped.records, bytes: shipped.bytes, reconnects, lines }, backlog))
}

/// Resolves when the thread has ended; never if there is none.
async fn wait_ended(ended: Option<oneshot::Receiver<()>>) {
    match ended {
        Some(ended) => drop(ended.await),
        None => std::future::pending().await,
    }
}

/// Ensures that no other agent uses the state directory while the lock exists. Creates the directory if it is missing.
///
/// # Errors
/// [`ForwardError::State`]: another agent uses it, or it cannot be created.
pub fn lock_state(env: &Env, dir: &Path) -> Result<Box<dyn FileLock>, ForwardError> {
    let locked = env.fs.create_dir_all(dir).and_then(|()| env.fs.lock(&dir.join("LOCK")));
    locked.map_err(|error| ForwardError::State { dir: dir.to_owned(), reason: state_problem(dir, &error) })
}

/// Why the state directory cannot be used, and what to do.
fn state_problem(dir: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::WouldBlock => {
            let lock = dir.join("LOCK");
            return format!(
                "another agent uses it: stop that one, or give this one another --state-dir; 'fuser {}' prints its process id",
                lock.display()
            );
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            return "it is no directory: choose another --state-dir".to_owned();
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "let this user write there",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on its disk",
        _ => return format!("cannot use it: {error}: choose another --state-dir"),
    };
    format!("cannot write to it: {error}: {remedy}, or choose another --state-dir")
}

/// The thread that reads files.
struct Reader {
    stop: Arc<AtomicBool>,
    ended: oneshot::Receiver<Result<(), String>>,
    thread: Thread,
}

impl Reader {
    /// Starts the thread. Without files and the journal it only sends what a former run left.
    fn start(
        collector: &Arc<SharedCollector>,
        files: &FilesConfig,
        env: &Env,
        has_journal: bool,
    ) -> Result<Self, ForwardError> {
        let has_inputs = has_journal || !files.tailer.patterns.is_empty();
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, ended) = oneshot::channel();
        let (collector, files, env, stopping) = (Arc::clone(collector), files.clone(), env.clone(), Arc::clone(&stop));
        let work = move || {
            let result = drive(&collector, &files, &env, &stopping, has_inputs).map_err(|error| error.to_string());
            // The receiver may have been dropped.
            let _ = sender.send(result);
        };
        let thread = thread::Builder::new().name("files".to_owned()).spawn(work).map_err(ForwardError::Input)?;
        Ok(Self { stop, ended, thread: thread.thread().clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_the_state_directory_have_a_remedy() {
        let check = |kind: io::ErrorKind, want: &str| {
            let problem = state_problem(Path::new("/s"), &kind.into());
            assert!(problem.starts_with(want) && problem.contains("another --state-dir"), "{problem}");
        };
        check(io::ErrorKind::WouldBlock, "another agent uses it: stop that one");
        check(io::ErrorKind::NotADirectory, "it is no directory");
        check(io::ErrorKind::PermissionDenied, "cannot write to it: permission denied: let this user write there");
        check(io::ErrorKind::StorageFull, "cannot write to it: no storage space: make room on its disk");
        check(io::ErrorKind::NotFound, "cannot use it: entity not found");
    }
}
