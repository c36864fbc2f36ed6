//! Ctrl-C.

use std::io;
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;
use crate::progress;

/// From now on an interrupt ends the process at once with [`Exit::Interrupted`], without writing buffered output.
///
/// A thread waits for it, so that it also works while the main thread is blocked writing to a full pipe.
pub(crate) fn exit_on_interrupt() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    // The signal is caught from here on, before the thread runs.
    let mut interrupts = {
        let _entered = runtime.enter();
        signal(SignalKind::interrupt())?
    };
    thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        if runtime.block_on(interrupts.recv()).is_some() {
            progress::remove();
            Exit::Interrupted.exit_now();
        }
    })?;
    Ok(())
}
