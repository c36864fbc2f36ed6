//! Which lines are one event.

use regex_automata::meta::Regex;

use super::config_error::LineConfigError;
use super::redaction::compile;
use super::stack_trace::TraceState;

/// Which lines are one event. Its lines have LFs between them.
#[derive(Clone, Debug, Default)]
pub enum Multiline {
    /// Each line is an event.
    #[default]
    Off,
    /// Stack traces of Java, Python, Go, Node.js, Rust and .NET are events.
    StackTraces,
    /// A line that matches begins an event.
    Start(Regex),
}

impl Multiline {
    /// The setting as it is typed: `off`, `auto`, or a regex.
    ///
    /// # Errors
    /// [`LineConfigError`] if the regex is invalid.
    pub fn parse(text: &str) -> Result<Self, LineConfigError> {
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::StackTraces),
            "" => Err(LineConfigError::Empty),
            regex => Ok(Self::Start(compile(regex)?)),
        }
    }

    /// Whether each line is an event.
    pub fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    /// The state behind a line that begins an event.
    pub(super) fn begin(&self, line: &[u8]) -> TraceState {
        match self {
            Self::StackTraces => TraceState::begin(line),
            _ => TraceState::default(),
        }
    }

    /// The state behind a line that continues an event whose last line is `before`; `None` if it begins the next one.
    pub(super) fn continued(&self, state: TraceState, before: &[u8], line: &[u8]) -> Option<TraceState> {
        match self {
            Self::Off => None,
            Self::StackTraces => state.continued(before, line),
            Self::Start(regex) => (!regex.is_match(line)).then_some(state),
        }
    }
}
