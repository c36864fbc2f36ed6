//! Ctrl-C.

use std::io;
use std::process;
use std::thread;

use crate::exit::Exit;

/// From now on an interrupt ends the process at once with [`Exit::Interrupted`].
///
/// A thread of its own waits for it, so that it also works while the main thread is stuck in a write to a pipe that
/// nobody reads. What was not written by then is not written.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn exit_on_interrupt() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        // Where signals cannot be caught, the interrupt's own way of ending a process is left in place.
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            process::exit(i32::from(Exit::Interrupted.code()));
        }
    })?;
    Ok(())
}
