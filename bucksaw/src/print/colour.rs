//! Colours on a terminal.

use std::env;
use std::io::IsTerminal;

use clap::ColorChoice;

/// Whether a stream is coloured: if it is a terminal and `NO_COLOR` is unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    On,
    Off,
}

impl Colour {
    /// The colouring of a stream. An empty `NO_COLOR` counts as unset, as no-color.org defines.
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let is_wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let is_able = env::var_os("TERM").is_none_or(|value| value != "dumb");
        if is_wanted && is_able && stream.is_terminal() { Self::On } else { Self::Off }
    }

    /// The colouring of a stream, as chosen by `--color`. A choice takes precedence over `NO_COLOR`.
    pub(crate) fn chosen(choice: ColorChoice, stream: &impl IsTerminal) -> Self {
        match choice {
            ColorChoice::Auto => Self::of(stream),
            ColorChoice::Always => Self::On,
            ColorChoice::Never => Self::Off,
        }
    }

    pub(crate) fn bold_red(self, text: &[u8]) -> Vec<u8> {
        self.paint("1;31", text)
    }

    pub(crate) fn dim(self, text: &[u8]) -> Vec<u8> {
        self.paint("2", text)
    }

    pub(crate) fn green(self, text: &[u8]) -> Vec<u8> {
        self.paint("32", text)
    }

    pub(crate) fn cyan(self, text: &[u8]) -> Vec<u8> {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &[u8]) -> Vec<u8> {
        match self {
            Self::On => [b"\x1b[", code.as_bytes(), b"m", text, b"\x1b[0m"].concat(),
            Self::Off => text.to_vec(),
        }
    }
}
