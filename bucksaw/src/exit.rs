//! Exit codes.

use std::process::ExitCode;

/// The exit codes of every command. A closed standard output is [`Exit::Done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; a search found something.
    Done,
    /// Failed; a search found nothing.
    Failed,
    /// Wrong usage; a search failed.
    Trouble,
    /// Interrupted, as shells report it.
    Interrupted,
    /// The exit code of a command that was run.
    Command(u8),
}

impl Exit {
    /// The code of a search, as of grep.
    pub(crate) const fn found(any: bool) -> Self {
        if any { Self::Done } else { Self::Failed }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Trouble => 2,
            Self::Interrupted => 130,
            Self::Command(code) => code,
        }
    }

    /// Ends the process at once.
    pub(crate) fn exit_now(self) -> ! {
        std::process::exit(i32::from(self.code()))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
