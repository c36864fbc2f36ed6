//! What a run did, as one line.

use std::time::Duration;

use super::load_totals::LoadTotals;
use crate::print::{human_bytes, human_seconds};

/// The summary of a run. `is_acked` is whether the target acknowledges records.
pub(super) fn summary(totals: LoadTotals, time: Duration, is_acked: bool) -> String {
    let seconds = time.as_secs_f64().max(0.001);
    let LoadTotals { written_records, written_bytes, acked_records, acked_bytes, late_records } = totals;
    // Of a node the rate is that of its acknowledgements.
    let (records, bytes) = if is_acked { (acked_records, acked_bytes) } else { (written_records, written_bytes) };
    let mut text = format!("{} ({})", records_text(written_records), human_bytes(written_bytes));
    if is_acked {
        text.push_str(&format!(" sent, {acked_records} acknowledged"));
    } else {
        text.push_str(" written");
    }
    text.push_str(&format!(
        " in {}: {:.0} records/s, {}/s",
        human_seconds(seconds),
        records as f64 / seconds,
        human_bytes((bytes as f64 / seconds) as u64)
    ));
    if late_records > 0 {
        text.push_str(&format!("; the target was slower than --rate: {} left out", records_text(late_records)));
    }
    text
}

/// What a run does, for a line of progress: the rate between two moments.
pub(super) fn progress(before: LoadTotals, now: LoadTotals, time: Duration, is_acked: bool) -> String {
    let seconds = time.as_secs_f64().max(0.001);
    let records = now.written_records.saturating_sub(before.written_records) as f64 / seconds;
    let bytes = now.written_bytes.saturating_sub(before.written_bytes) as f64 / seconds;
    let mut text =
        format!(": {records:.0} records/s, {}/s, {}", human_bytes(bytes as u64), records_text(now.written_records));
    if is_acked {
        let waiting = now.written_records.saturating_sub(now.acked_records);
        text.push_str(&format!(", {waiting} not acknowledged"));
    }
    text
}

fn records_text(records: u64) -> String {
    if records == 1 { "1 record".to_owned() } else { format!("{records} records") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_one_line() {
        let totals = LoadTotals {
            written_records: 1_000,
            written_bytes: 4 << 20,
            acked_records: 500,
            acked_bytes: 2 << 20,
            late_records: 0,
        };
        let check = |totals, is_acked, want: &str| assert_eq!(summary(totals, Duration::from_secs(2), is_acked), want);
        check(totals, true, "1000 records (4.0 MB) sent, 500 acknowledged in 2.0 s: 250 records/s, 1.0 MB/s");
        check(totals, false, "1000 records (4.0 MB) written in 2.0 s: 500 records/s, 2.0 MB/s");
        let late = LoadTotals { written_records: 1, late_records: 7, ..LoadTotals::default() };
        check(
            late,
            false,
            "1 record (0 B) written in 2.0 s: 0 records/s, 0 B/s; the target was slower than --rate: 7 records left out",
        );
        let none = LoadTotals::default();
        assert_eq!(
            progress(none, totals, Duration::from_secs(1), true),
            ": 1000 records/s, 4.0 MB/s, 1000 records, 500 not acknowledged"
        );
    }
}
