//! Ctrl-C.

use std::io;
use std::process;
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;

/// From now on an interrupt ends the process at once with [`Exit::Interrupted`].
///
/// A thread of its own waits for it, so that it also works while the main thread is stuck in a write to a pipe that
/// nobody reads. What was not written by then is not written.
///
/// # Errors
/// When the system gives no thread or does not let signals be caught.
pub(crate) fn exit_on_interrupt() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    // Caught from here on, and not only once the thread runs.
    let mut interrupts = {
        let _entered = runtime.enter();
        signal(SignalKind::interrupt())?
    };
    thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        if runtime.block_on(interrupts.recv()).is_some() {
            process::exit(i32::from(Exit::Interrupted.code()));
        }
    })?;
    Ok(())
}
