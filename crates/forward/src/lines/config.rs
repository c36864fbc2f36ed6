//! Settings: what a line becomes.

use std::time::Duration;

use bucksaw_record::AttributeNames;

use super::config_error::{ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX, LineConfigError};
use super::filter::ShippingRules;
use super::multiline::Multiline;

/// For how long the rest of a line is waited for.
const PART_WAIT: Duration = Duration::from_secs(5);

/// For how long the next line of an event is waited for.
const EVENT_WAIT: Duration = Duration::from_secs(1);

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
    pub filter: ShippingRules,
    /// Names and values that every record gets.
    pub attributes: Vec<(String, String)>,
    /// The name of the Kubernetes node, a label of files of pods.
    pub node_name: Option<String>,
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
