//! Exit codes.

use std::process::ExitCode;

/// The exit codes of every command. A closed standard output is [`Exit::Done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done; a search found something.
    Done = 0,
    /// Failed; a search found nothing.
    Failed = 1,
    /// Wrong usage; a search failed.
    Trouble = 2,
    /// Interrupted, as shells report it.
    Interrupted = 130,
}

impl Exit {
    /// The code of a search, as of grep.
    pub(crate) const fn found(any: bool) -> Self {
        if any { Self::Done } else { Self::Failed }
    }

    /// Ends the process at once.
    pub(crate) fn exit_now(self) -> ! {
        std::process::exit(i32::from(self as u8))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
