//! Buffered standard output.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;

use anyhow::Context;
use clap::ColorChoice;

use super::sanitise::sanitise_json;
use super::{Colour, sanitise};
use crate::exit::Exit;

const BUFFER_BYTES: usize = 64 << 10;

/// Capacity of a pipe, in bytes. At the usual 64 KiB, writer and reader wake each other for every few pages; a larger
/// pipe no longer fits in the cache between them.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 256 << 10;

/// The reader of standard output is gone, as `head` once it has enough. Ends with [`Exit::Done`], silently.
#[derive(Debug, thiserror::Error)]
#[error("the reader of standard output is gone")]
pub(crate) struct PipeClosed;

/// Standard output, buffered until [`Out::flush`]. The standard library's own searches for line ends.
#[derive(Debug)]
pub(crate) struct Out<W: Write = File> {
    writer: BufWriter<W>,
    pub(crate) terminal: bool,
    pub(crate) colour: Colour,
}

impl Out {
    /// Standard output, coloured as chosen.
    pub(crate) fn coloured(choice: ColorChoice) -> anyhow::Result<Self> {
        Ok(Self { colour: Colour::chosen(choice, &io::stdout()), ..Self::stdout()? })
    }

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

    /// Prints bytes as the whole output of a command.
    pub(crate) fn print(bytes: &[u8]) -> anyhow::Result<Exit> {
        let mut out = Self::stdout()?;
        out.write(bytes)?;
        out.flush()?;
        Ok(Exit::Done)
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

    /// Writes bytes as they are. Fails with [`PipeClosed`] if the reader is gone.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        map_broken_pipe(self.writer.write_all(bytes))
    }

    /// Writes bytes from outside, sanitised on a terminal.
    pub(crate) fn write_sanitised(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let shown = self.sanitised(bytes);
        self.write(&shown)
    }

    /// Writes JSON from outside, sanitised on a terminal, where it stays JSON.
    pub(crate) fn write_json(&mut self, json: &[u8]) -> anyhow::Result<()> {
        if !self.terminal {
            return self.write(json);
        }
        let mut shown = Vec::with_capacity(json.len());
        sanitise_json(json, &mut shown);
        self.write(&shown)
    }

    /// The bytes, sanitised on a terminal.
    pub(crate) fn sanitised<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.terminal {
            return Cow::Borrowed(bytes);
        }
        let mut shown = Vec::with_capacity(bytes.len());
        sanitise(bytes, &mut shown);
        Cow::Owned(shown)
    }

    /// Passes the buffer to the reader. Fails as [`Self::write`].
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        map_broken_pipe(self.writer.flush())
    }
}

/// Enlarges a pipe if the system allows it.
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
