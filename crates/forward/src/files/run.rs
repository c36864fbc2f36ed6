//! Runs the reading thread and the connections side by side.
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use bucksaw_env::{Env, FileLock, lock, wait_for_stop};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::collector::{Backlog, Collector};
use super::config::FilesConfig;
use super::driver::drive;
use crate::connection_loop::ConnectionLoop;
use crate::run::Summary;
use crate::send_window::SendWindow;
use crate::{Config, ForwardError};

/// Ships files until the stop. What is then unacknowledged stays in the buffer, for the next start.
///
/// # Errors
/// The state directory is in use, cannot be written, or is of a later version; no address is configured.
pub async fn run_files(
    config: Config,
    files: FilesConfig,
    env: Env,
    mut stop: watch::Receiver<bool>,
) -> Result<(Summary, Backlog), ForwardError> {
    if config.addresses.is_empty() {
        return Err(ForwardError::NoAddress);
    }
    let state_error = |reason: String| ForwardError::State { dir: files.state_dir.clone(), reason };
    let _lock = lock_state(&env, &files)?;
    let window = Arc::new(SendWindow::new(config.window_bytes));
    let collector = Collector::open(&config, &files, &env, Arc::clone(&window));
    let collector = Arc::new(Mutex::new(collector.map_err(|error| state_error(error.to_string()))?));
    let reader = Reader::start(&collector, &files, &env)?;
    let mut shipping = std::pin::pin!(ConnectionLoop::new(&config, &env, &window).run());
    let (stopping, mut ended) = (Arc::clone(&reader.stop), reader.ended);
    let read = tokio::select! {
        // The window does not end before the reader.
        _ = &mut shipping => Ok(()),
        () = wait_for_stop(&mut stop) => {
            stopping.store(true, Ordering::Relaxed);
            // What is in the window is sent while the reader ends.
            tokio::select! {
                _ = &mut shipping => Ok(()),
                ended = &mut ended => ended.unwrap_or(Ok(())),
            }
        }
        ended = &mut ended => ended.unwrap_or(Err("the reading thread panicked".to_owned())),
    };
    window.end_input();
    let reconnects = timeout(config.stop_timeout, &mut shipping).await.unwrap_or_default();
    let (backlog, lines) = {
        let mut collector = lock(&collector);
        collector.save();
        (collector.backlog(), collector.line_totals())
    };
    read.map_err(state_error)?;
    let shipped = window.acked_totals();
    Ok((Summary { records: shipped.records, bytes: shipped.bytes, reconnects, lines }, backlog))
}

/// Ensures that no other agent uses the state directory.
fn lock_state(env: &Env, files: &FilesConfig) -> Result<Box<dyn FileLock>, ForwardError> {
    let locked = env.fs.create_dir_all(&files.state_dir).and_then(|()| env.fs.lock(&files.state_dir.join("LOCK")));
    locked.map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::WouldBlock => "another agent uses it".to_owned(),
            _ => error.to_string(),
        };
        ForwardError::State { dir: files.state_dir.clone(), reason }
    })
}

/// The thread that reads files.
struct Reader {
    stop: Arc<AtomicBool>,
    ended: oneshot::Receiver<Result<(), String>>,
}

impl Reader {
    fn start(collector: &Arc<Mutex<Collector>>, files: &FilesConfig, env: &Env) -> Result<Self, ForwardError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, ended) = oneshot::channel();
        let (collector, files, env, stopping) = (Arc::clone(collector), files.clone(), env.clone(), Arc::clone(&stop));
        let work = move || {
            let result = drive(&collector, &files, &env, &stopping).map_err(|error| error.to_string());
            // The receiver may have been dropped.
            let _ = sender.send(result);
        };
        thread::Builder::new().name("files".to_owned()).spawn(work).map_err(ForwardError::Input)?;
        Ok(Self { stop, ended })
    }
}
