//! Settings: what a line becomes.

use std::time::Duration;

use bucksaw_record::{AttributeNames, InvalidAttributes};

use super::filter::RecordFilter;
use super::multiline::Multiline;

/// For how long the rest of a line is waited for.
const PART_WAIT: Duration = Duration::from_secs(5);

/// For how long the next line of an event is waited for.
const EVENT_WAIT: Duration = Duration::from_secs(1);

/// The most attributes that every record gets.
const ATTRIBUTES_MAX: usize = 64;

/// The longest values of them, in bytes: each record repeats them.
const ATTRIBUTE_BYTES_MAX: usize = 4 << 10;

/// The format of log files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Files in the directories of container runtimes are logs of containers, see [`super::ContainerRef`]; all others are lines.
    #[default]
    Auto,
    /// Each line is a record.
    Lines,
    /// Logs of containers, in the format of the container runtime interface.
    Cri,
    /// Logs of containers, in the format of Docker's driver `json-file`.
    Docker,
}

/// What lines become.
#[derive(Clone, Debug, Default)]
pub struct LineConfig {
    /// The format of the files. Standard input is always lines.
    pub format: LogFormat,
    /// Which lines are one event.
    pub multiline: Multiline,
    /// Which records are shipped, and how they are changed.
    pub filter: RecordFilter,
    /// Names and values that every record gets.
    pub attributes: Vec<(String, String)>,
    /// The name of the Kubernetes node, a label of files of pods.
    pub node_name: Option<String>,
}

/// Why a setting is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineConfigError {
    /// An expression is invalid.
    #[error("the expression `{text}`: {reason}")]
    Expression {
        /// The expression.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// A regex is invalid or too large.
    #[error("the regex `{text}`: {reason}")]
    Regex {
        /// The regex.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// The share of a sample is no number from 0 to 1.
    #[error("the share `{0}`: write a number from 0 to 1, such as 0.1, or a percentage, such as 10%")]
    Share(String),
    /// An attribute is not written as a name and a value.
    #[error("the attribute `{0}`: write it as name=value")]
    Attribute(String),
    /// The attributes are too many, or have an invalid name.
    #[error(transparent)]
    Attributes(#[from] InvalidAttributes),
    /// The attributes of every record are too many or too long.
    #[error(
        "at most {ATTRIBUTES_MAX} attributes with {ATTRIBUTE_BYTES_MAX} bytes of values, as every record repeats them"
    )]
    TooLong,
}

impl LineConfig {
    /// Adds an attribute as it is typed: `name=value`.
    ///
    /// # Errors
    /// [`LineConfigError`]; nothing is added then.
    pub fn add_attribute(&mut self, text: &str) -> Result<(), LineConfigError> {
        let pair = text.split_once('=').ok_or_else(|| LineConfigError::Attribute(text.to_owned()))?;
        // A value of several lines would be valid, and surely is a mistake.
        if pair.1.contains('\n') {
            return Err(LineConfigError::Attribute(text.to_owned()));
        }
        AttributeNames::new([pair.0])?;
        let bytes: usize = self.attributes.iter().map(|(_, value)| value.len()).sum();
        if self.attributes.len() == ATTRIBUTES_MAX || bytes + pair.1.len() > ATTRIBUTE_BYTES_MAX {
            return Err(LineConfigError::TooLong);
        }
        self.attributes.push((pair.0.to_owned(), pair.1.to_owned()));
        Ok(())
    }

    /// For how long an incomplete event waits: the rest of a line for longer than the next line of a stack trace, as runtimes
    /// write the parts of a line one after the other.
    pub fn wait(&self) -> Duration {
        if self.multiline.is_off() { PART_WAIT } else { EVENT_WAIT }
    }

    /// Whether a line of a file of lines becomes a record as it is.
    pub(crate) fn is_plain(&self) -> bool {
        self.multiline.is_off() && self.filter.is_empty() && self.attributes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_checked() {
        let mut config = LineConfig::default();
        let mut check = |text: &str, want: &str| {
            assert_eq!(config.add_attribute(text).map_or_else(|error| error.to_string(), |()| String::new()), want);
        };
        check("team=shop", "");
        check("a.b=c=d", "");
        check("team", "the attribute `team`: write it as name=value");
        check("a=b\nc", "the attribute `a=b\nc`: write it as name=value");
        check("=x", "an attribute's name is empty or longer than 255 bytes: ``");
        check(
            &format!("a={}", "x".repeat(5_000)),
            "at most 64 attributes with 4096 bytes of values, as every record repeats them",
        );
        assert_eq!(config.attributes.len(), 2);
        assert!(!config.is_plain() && LineConfig::default().is_plain());
    }
}
