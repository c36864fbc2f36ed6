//! `bucksaw histogram`: how many records matched when, as bars.

use clap::Args;
use serde_json::Value;

use crate::args::SummaryArgs;
use crate::exit::Exit;
use crate::summary::{self, SummaryView, cell};
use crate::values::{DisplayZone, bucket_count};

/// Longest bar, in columns, where the output is no terminal.
const BAR_COLUMNS: usize = 40;

/// Longest bar on a narrow terminal, and on a wide one.
const BAR_COLUMNS_MIN: usize = 8;
const BAR_COLUMNS_MAX: usize = 100;

/// Show how many records matched over time
///
/// Prints a bar per bucket of time, and with --by a column per value of a field. Exits as query does.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistogramArgs {
    #[command(flatten)]
    pub(crate) summary: SummaryArgs,

    /// Number of buckets
    #[arg(long, value_name = "N", default_value = "20", value_parser = bucket_count)]
    buckets: u64,

    /// Also count by the values of this field or label, by @level, or by @stream
    #[arg(long, value_name = "NAME")]
    by: Option<String>,

    /// Value of --by to count; repeatable; defaults to the most frequent ones
    #[arg(long = "value", value_name = "VALUE", id = "values", requires = "by")]
    values: Vec<String>,
}

pub(crate) fn run(args: &HistogramArgs) -> anyhow::Result<Exit> {
    let mut parameters = vec![("buckets", args.buckets.to_string())];
    parameters.extend(args.by.iter().map(|by| ("by", by.clone())));
    parameters.extend(args.values.iter().map(|value| ("value", value.clone())));
    let zone = args.summary.display.zone();
    summary::run(&args.summary, "/api/v1/histogram", parameters, |document, view| render(document, &zone, view))
}

fn render(document: &Value, zone: &DisplayZone, view: &SummaryView) -> (String, bool) {
    let buckets: Vec<&Value> = document["buckets"].as_array().into_iter().flatten().collect();
    let count = |bucket: &Value| bucket["count"].as_u64().unwrap_or_default();
    let any = buckets.iter().any(|bucket| count(bucket) > 0);
    let groups: Vec<&str> =
        document["group_values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut rows = vec![heading(&buckets, zone, &groups)];
    for bucket in &buckets {
        let mut row = vec![time(bucket, zone).0, count(bucket).to_string()];
        let in_group = |group: &&str| bucket["groups"][*group].as_u64().unwrap_or_default();
        row.extend(groups.iter().map(|group| in_group(group).to_string()));
        if !groups.is_empty() {
            let grouped: u64 = groups.iter().map(in_group).sum();
            row.push(count(bucket).saturating_sub(grouped).to_string());
        }
        rows.push(row);
    }
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or_default()).collect();
    let used: usize = widths.iter().map(|width| width + 2).sum();
    let bar_columns = view
        .columns
        .map_or(BAR_COLUMNS, |columns| columns.saturating_sub(used))
        .clamp(BAR_COLUMNS_MIN, BAR_COLUMNS_MAX);
    let most = buckets.iter().map(|bucket| count(bucket)).max().unwrap_or_default();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let mut cells = row.iter().zip(&widths);
        if let Some((time, width)) = cells.next() {
            text.push_str(&format!("{time:width$}"));
        }
        cells.for_each(|(cell, width)| text.push_str(&format!("  {cell:>width$}")));
        if let Some(bucket) = at.checked_sub(1).and_then(|at| buckets.get(at)) {
            let bar = bar(count(bucket), most, bar_columns);
            if !bar.is_empty() {
                text.push_str("  ");
                text.push_str(&String::from_utf8_lossy(&view.colour.cyan(bar.as_bytes())));
            }
        }
        text.push('\n');
    }
    (text, any)
}

fn heading(buckets: &[&Value], zone: &DisplayZone, groups: &[&str]) -> Vec<String> {
    let offset = buckets.first().map(|bucket| time(bucket, zone).1).unwrap_or_default();
    let mut heading = vec![format!("TIME {offset}").trim_end().to_owned(), "COUNT".to_owned()];
    heading.extend(groups.iter().map(|group| cell(group)));
    if !groups.is_empty() {
        heading.push("(other)".to_owned());
    }
    heading
}

/// The begin of a bucket to the second, or to the millisecond in short buckets, and the offset of its zone.
fn time(bucket: &Value, zone: &DisplayZone) -> (String, String) {
    let local = |name: &str| zone.format_text(bucket[name].as_str().unwrap_or_default());
    let (from, to) = (local("from"), local("to"));
    let is_whole = |time: &str| time.get(19..23).is_none_or(|fraction| fraction == ".000");
    let length = if is_whole(&from) && is_whole(&to) { 19 } else { 23 };
    let offset = from.get(26..).unwrap_or_default();
    let shown = from.get(..length).unwrap_or(&from).replace('T', " ");
    (cell(&shown), if offset == "Z" { "UTC".to_owned() } else { cell(offset) })
}

/// A bar in eighths of a column; at least the smallest for a count above 0.
fn bar(count: u64, most: u64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if count == 0 || most == 0 {
        return String::new();
    }
    let eighths = (u128::from(count) * columns as u128 * 8 / u128::from(most)).max(1);
    let eighths = usize::try_from(eighths).unwrap_or(columns * 8);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS.get(eighths % 8).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::print::Colour;

    fn bucket(minute: u32, count: u64, groups: Value) -> Value {
        let time = |minute: u32| format!("2026-11-20T23:{minute:02}:00.000000Z");
        json!({"from": time(minute), "to": time(minute + 1), "count": count, "groups": groups})
    }

    #[test]
    fn buckets_are_bars() {
        let view = SummaryView { columns: Some(40), colour: Colour::Off };
        let document =
            json!({"buckets": [bucket(1, 4, json!(null)), bucket(2, 1, json!(null)), bucket(3, 0, json!(null))]});
        let want = "TIME +01:00          COUNT\n\
                    2026-11-21 00:01:00      4  ████████████\n\
                    2026-11-21 00:02:00      1  ███\n\
                    2026-11-21 00:03:00      0\n";
        assert_eq!(render(&document, &"+01:00".parse().unwrap(), &view), (want.to_owned(), true));
    }

    #[test]
    fn groups_are_columns() {
        let view = SummaryView { columns: None, colour: Colour::Off };
        let document = json!({
            "buckets": [bucket(1, 9, json!({"error": 2, "in\nfo": 3})), bucket(2, 0, json!({}))],
            "group_values": ["error", "in\nfo"],
        });
        let bar = "█".repeat(40);
        let want = format!(
            "TIME UTC             COUNT  error  in fo  (other)\n\
             2026-11-20 23:01:00      9      2      0        4  {bar}\n\
             2026-11-20 23:02:00      0      0      0        0\n"
        );
        let want = want.replace("2      0        4", "2      3        4");
        assert_eq!(render(&document, &DisplayZone::utc(), &view), (want, true));
        let (text, any) = render(&json!({"buckets": [bucket(1, 0, json!(null))]}), &DisplayZone::utc(), &view);
        assert!(!any && text.lines().count() == 2, "{text}");
        assert_eq!(render(&json!([]), &DisplayZone::utc(), &view), ("TIME  COUNT\n".to_owned(), false));
    }

    #[test]
    fn a_small_count_has_a_bar() {
        assert_eq!((bar(1, 1_000_000, 10).as_str(), bar(0, 5, 10).as_str()), ("▏", ""));
        assert_eq!(bar(u64::MAX, u64::MAX, 3), "███");
    }
}
