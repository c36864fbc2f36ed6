//! How a command ends.

use std::process::ExitCode;

/// The exit codes of every command. A reader of our output that goes away early is no failure: [`Exit::Done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done; a search found something.
    Done,
    /// 1: failed; a search found nothing.
    Failed,
    /// 2: wrong usage; a search could not be made.
    Trouble,
    /// 130: interrupted from the keyboard, as shells have it.
    Interrupted,
}

impl Exit {
    /// The number that the operating system is told.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Trouble => 2,
            Self::Interrupted => 130,
        }
    }

    /// What a search says: whether something matched, as grep has it.
    pub(crate) const fn found(any: bool) -> Self {
        if any { Self::Done } else { Self::Failed }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
