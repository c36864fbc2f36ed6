//! The time range of a search.

use bucksaw_record::{Millis, time};
use clap::Args;

use crate::failure::UsageError;
use crate::layers::Layer;
use crate::values::{DisplayZone, checked_time};

/// The time range of a search.
#[derive(Clone, Debug, Args)]
pub(crate) struct WindowArgs {
    /// Search from this long ago, such as 15m, 2h30m or 7d
    #[arg(long, value_name = "AGE", default_value = "1h", value_parser = checked_time)]
    pub(crate) since: String,

    /// Search from this time on, instead of --since
    ///
    /// A time is RFC 3339 (2026-11-20T23:10:00Z), a date, a local time (2026-11-20 23:10, 10:30), today, yesterday,
    /// now-1h, 15m or 15m ago for that long ago, or Unix seconds.
    #[arg(long, value_name = "TIME", value_parser = checked_time)]
    pub(crate) from: Option<String>,

    /// Search up to this time, exclusive; defaults to now
    #[arg(long, value_name = "TIME", value_parser = checked_time)]
    pub(crate) to: Option<String>,
}

impl WindowArgs {
    /// Resolves `--since` and `--from` by the layer they come from; both from one layer are an error.
    pub(crate) fn apply_layers(&mut self, layer: impl Fn(&str) -> Layer) -> Result<(), UsageError> {
        let (since, from) = (layer("since"), layer("from"));
        if self.from.is_some() && since > from {
            self.from = None;
        } else if self.from.is_some() && since == from {
            return Err(UsageError("both --since and --from are given: omit one of them".to_owned()));
        }
        Ok(())
    }

    /// The parameters `from` and `to` of a call. Fails if the range ends before it begins.
    pub(crate) fn parameters(&self, now: Millis, zone: &DisplayZone) -> anyhow::Result<Vec<(&'static str, String)>> {
        let begin = self.from.as_deref().unwrap_or(&self.since);
        let (from, to) = (zone.parse(begin, now)?, self.to.as_deref().map(|to| zone.parse(to, now)).transpose()?);
        if let Some(to) = to.filter(|to| from > *to) {
            let (from, to) = (zone.format(from, 0), zone.format(to, 0));
            let message = format!("the range ends ({to}) before it begins ({from}): change --from, --since or --to");
            return Err(UsageError(message).into());
        }
        let mut parameters = vec![("from", time_parameter(begin, now, zone)?)];
        if let Some(to) = &self.to {
            parameters.push(("to", time_parameter(to, now, zone)?));
        }
        Ok(parameters)
    }
}

/// A time for the node. Times that depend on the zone are resolved here, because the zone of this machine is not sent.
/// Others are sent as typed, so `15m` is relative to the clock of the node.
pub(crate) fn time_parameter(text: &str, now: Millis, zone: &DisplayZone) -> anyhow::Result<String> {
    let at = zone.parse(text, now)?;
    // If the zones differ by less than a day from UTC, some text may be equal in UTC; then both spellings are equal.
    let depends_on_zone = DisplayZone::utc().parse(text, now)? != at;
    Ok(if depends_on_zone { time::format_rfc3339(at, 0) } else { text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(window: &WindowArgs) -> String {
        window.parameters(Millis(1_795_216_200_000), &DisplayZone::utc()).unwrap().remove(0).1
    }

    #[test]
    fn the_higher_layer_wins() {
        let check = |since_layer: Layer, from_layer: Layer, from: Option<&str>, want: &str| {
            let mut window = WindowArgs { since: "1h".to_owned(), from: from.map(str::to_owned), to: None };
            let settled = window.apply_layers(|id| if id == "since" { since_layer } else { from_layer });
            let got = settled.map_or_else(|error| error.to_string(), |()| begin(&window));
            assert!(got.starts_with(want), "{since_layer:?} {from_layer:?}: {got}");
        };
        check(Layer::Default, Layer::Default, None, "1h");
        check(Layer::Flag, Layer::Default, None, "1h");
        check(Layer::Default, Layer::File, Some("2h"), "2h");
        check(Layer::File, Layer::Environment, Some("2h"), "2h");
        check(Layer::Environment, Layer::File, Some("2h"), "1h");
        check(Layer::Flag, Layer::Environment, Some("2h"), "1h");
        check(Layer::Environment, Layer::Flag, Some("2h"), "2h");
        check(Layer::Flag, Layer::Flag, Some("2h"), "both --since and --from");
        check(Layer::File, Layer::File, Some("2h"), "both --since and --from");
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_refused() {
        let check = |begin: &str, end: Option<&str>, good: bool| {
            let window = WindowArgs { since: begin.to_owned(), from: None, to: end.map(str::to_owned) };
            let parameters = window.parameters(Millis(1_795_216_200_000), &DisplayZone::utc());
            assert_eq!(parameters.is_ok(), good, "{begin} {end:?}");
        };
        check("1h", None, true);
        check("1h", Some("now"), true);
        check("1h", Some("1h"), true);
        check("1h", Some("2h"), false);
        check("1h", Some("2000-01-01"), false);
    }

    #[test]
    fn only_times_of_a_zone_are_resolved() {
        let zone: DisplayZone = "+02:00".parse().unwrap();
        // 2026-11-20T23:10:00Z, which is the next day in this zone.
        let now = Millis(1_795_216_200_000);
        let check = |text: &str, want: &str| assert_eq!(time_parameter(text, now, &zone).unwrap(), want, "{text}");
        check("15m", "15m");
        check("now-1h", "now-1h");
        check("1795216200", "1795216200");
        check("2026-11-20T23:10:00Z", "2026-11-20T23:10:00Z");
        check("2026-11-20 23:10", "2026-11-20T21:10:00.000000Z");
        check("today", "2026-11-20T22:00:00.000000Z");
        check("yesterday", "2026-11-19T22:00:00.000000Z");
    }
}
