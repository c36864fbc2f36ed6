//! Where data goes.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;

use anyhow::Context;

use super::Colour;
use crate::failure::PipeClosed;

/// Enough that a write is worth its system call, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// What a pipe should hold for its reader, in bytes. In the usual 64 KiB, writer and reader wake each other for every few
/// pages; more than this no longer stays in the cache between them.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 256 << 10;

/// Standard output, buffered until [`Out::flush`]. The standard library's own would look for line ends in all that
/// passes.
#[derive(Debug)]
pub(crate) struct Out<W: Write = File> {
    writer: BufWriter<W>,
    /// Whether a person looks at it.
    pub(crate) terminal: bool,
    /// Whether it may be coloured.
    pub(crate) colour: Colour,
}

impl Out {
    /// Standard output.
    ///
    /// # Errors
    /// When it is closed.
    pub(crate) fn stdout() -> anyhow::Result<Self> {
        let stdout = io::stdout();
        widen(&stdout);
        let file = stdout.as_fd().try_clone_to_owned().context("cannot use standard output")?;
        Ok(Self {
            writer: BufWriter::with_capacity(BUFFER_BYTES, File::from(file)),
            terminal: stdout.is_terminal(),
            colour: Colour::of(&stdout),
        })
    }
}

impl<W: Write> Out<W> {
    /// An output for tests.
    #[cfg(test)]
    pub(crate) fn new(writer: W, terminal: bool, colour: Colour) -> Self {
        Self { writer: BufWriter::new(writer), terminal, colour }
    }

    /// What was written, for tests.
    #[cfg(test)]
    pub(crate) fn written(&self) -> &W {
        self.writer.get_ref()
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// [`PipeClosed`] when the reader is gone, else what the system says.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        map_broken_pipe(self.writer.write_all(bytes))
    }

    /// Hands all that was written to the reader.
    ///
    /// # Errors
    /// As [`Out::write`].
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        map_broken_pipe(self.writer.flush())
    }
}

/// Gives a pipe more room, if it is one and the system lets us: it keeps what it has otherwise.
#[cfg(target_os = "linux")]
fn widen(out: impl AsFd) {
    use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
    if fcntl_getpipe_size(&out).is_ok_and(|bytes| bytes < PIPE_BYTES) {
        let _ = fcntl_setpipe_size(&out, PIPE_BYTES);
    }
}

#[cfg(not(target_os = "linux"))]
fn widen(_: impl AsFd) {}

fn map_broken_pipe(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(PipeClosed.into()),
        other => other.context("cannot write to standard output"),
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_is_widened_and_never_narrowed() {
        use super::{PIPE_BYTES, widen};
        use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size, pipe};

        let (_reader, writer) = pipe().unwrap();
        widen(&writer);
        assert_eq!(fcntl_getpipe_size(&writer).unwrap(), PIPE_BYTES);
        fcntl_setpipe_size(&writer, 2 * PIPE_BYTES).unwrap();
        widen(&writer);
        assert_eq!(fcntl_getpipe_size(&writer).unwrap(), 2 * PIPE_BYTES);
        widen(tempfile::tempfile().unwrap());
    }
}
