//! The level of the log.

use std::fmt;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;

/// A level, or a filter of `tracing` such as `info,bucksaw_cluster=debug`. Prints as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFilter(String);

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl FromStr for LogFilter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The filter reads any other word as the name of a module, whose log would be all that is shown.
        let is_part = |part: &str| {
            let (module, level) = part.rsplit_once('=').map_or((None, part), |(module, level)| (Some(module), level));
            let is_level = LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level));
            is_level && module.is_none_or(|module| !module.is_empty())
        };
        let is_valid = text.split(',').all(is_part) && EnvFilter::try_new(text).is_ok();
        if is_valid { Ok(Self(text.to_owned())) } else { Err("expected error, warn, info, debug, trace or off") }
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_parse() {
        for text in ["error", "WARN", "info", "debug", "trace", "off", "info,bucksaw_cluster=debug"] {
            assert!(text.parse::<LogFilter>().is_ok(), "{text}");
        }
        for text in ["", "loud", "info,loud", "bucksaw_cluster=loud", "=info", "warning"] {
            assert!(text.parse::<LogFilter>().is_err(), "{text}");
        }
    }
}
