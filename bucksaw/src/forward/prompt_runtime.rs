//! A runtime on a thread of its own, for listeners that must not wait for the turns of the agent's runtime.

use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Runs tasks until it is dropped.
pub(super) struct PromptRuntime {
    handle: Handle,
    _running: oneshot::Sender<()>,
}

impl PromptRuntime {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no more threads or descriptors.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        let work = move || {
            let _ = runtime.block_on(ended);
            // A blocking task may hang on the disk.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("listeners".to_owned()).spawn(work)?;
        Ok(Self { handle, _running: running })
    }

    /// Registers a socket, so that its events wake this thread.
    ///
    /// # Errors
    /// The system has no more memory for it.
    pub(super) fn adopt<S, T>(&self, socket: S, register: impl FnOnce(S) -> io::Result<T>) -> io::Result<T> {
        let _entered = self.handle.enter();
        register(socket)
    }

    /// Spawns tasks.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}
