//! Where the times of lines come from, by listener.

use clap::ValueEnum as _;

use super::TimeFrom;

/// The listeners for lines.
const LISTENERS: [&str; 3] = ["fast", "durable", "bulk"];

/// `FROM` for all listeners, `LISTENER=FROM` for one, several with commas. The last one that names a listener counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerTimes([TimeFrom; LISTENERS.len()]);

impl ListenerTimes {
    /// # Errors
    /// A listener or a source of times that does not exist.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut times = [TimeFrom::Arrival; LISTENERS.len()];
        for item in text.split(',').map(str::trim) {
            let (listener, from) = match item.split_once('=') {
                Some((listener, from)) => (Some(listener), from),
                None => (None, item),
            };
            if let Some(unknown) = listener.filter(|name| !LISTENERS.contains(name)) {
                return Err(format!("`{unknown}` is no listener for lines: use {}", LISTENERS.join(", ")));
            }
            let from = TimeFrom::from_str(from, false).map_err(|_| format!("`{from}` is neither arrival nor line"))?;
            for (time, name) in times.iter_mut().zip(LISTENERS) {
                if listener.is_none_or(|listener| listener == name) {
                    *time = from;
                }
            }
        }
        Ok(Self(times))
    }

    /// Where the times of a listener come from.
    pub(crate) fn of(self, listener: &str) -> TimeFrom {
        let found = LISTENERS.iter().zip(self.0).find(|(name, _)| **name == listener);
        found.map_or(TimeFrom::Arrival, |(_, from)| from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_listener_or_all() {
        let check = |text: &str, want: [TimeFrom; 3]| assert_eq!(ListenerTimes::parse(text), Ok(ListenerTimes(want)));
        use TimeFrom::{Arrival, Line};
        check("arrival", [Arrival; 3]);
        check("line", [Line; 3]);
        check("durable=line", [Arrival, Line, Arrival]);
        check("fast=line, bulk=line", [Line, Arrival, Line]);
        check("line,fast=arrival", [Arrival, Line, Line]);
        assert_eq!(ListenerTimes::parse("fast=line").unwrap().of("fast"), Line);
        assert_eq!(ListenerTimes::parse("fast=line").unwrap().of("bulk"), Arrival);
    }

    #[test]
    fn errors_name_what_exists() {
        let check = |text: &str, want: &str| assert_eq!(ListenerTimes::parse(text), Err(want.to_owned()));
        check("syslog=line", "`syslog` is no listener for lines: use fast, durable, bulk");
        check("fast=file", "`file` is neither arrival nor line");
        check("", "`` is neither arrival nor line");
    }
}
