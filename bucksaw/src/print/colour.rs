//! Colours, for terminals of people who want them.

use std::env;
use std::io::IsTerminal;

/// Whether a stream may be coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// It is a terminal, and `NO_COLOR` is not set.
    On,
    /// It is no terminal, or the user wants none.
    Off,
}

impl Colour {
    /// What holds for this stream. A `NO_COLOR` that is set but empty does not count, as no-color.org has it.
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        if wanted && stream.is_terminal() { Self::On } else { Self::Off }
    }

    /// The text, so that it stands out.
    pub(crate) fn bold_red(self, text: &str) -> Vec<u8> {
        self.paint("1;31", text)
    }

    /// The text, so that it steps back.
    pub(crate) fn dim(self, text: &str) -> Vec<u8> {
        self.paint("2", text)
    }

    /// The text, so that it is told from what is beside it.
    pub(crate) fn cyan(self, text: &str) -> Vec<u8> {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &str) -> Vec<u8> {
        match self {
            Self::On => format!("\x1b[{code}m{text}\x1b[0m").into_bytes(),
            Self::Off => text.as_bytes().to_vec(),
        }
    }
}
