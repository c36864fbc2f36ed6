//! The rate of an agent, as one line on a terminal.

use std::time::Duration;

use bucksaw_forward::{AgentMonitor, AgentStatus, FilesStatus};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::print::{human_bytes, human_seconds};
use crate::progress::Progress;

/// How often the rate is measured.
const INTERVAL: Duration = Duration::from_secs(1);

/// Does the work of an agent, and shows its rate meanwhile. Nothing is measured if standard error is no terminal.
pub(super) async fn show_during<T>(work: impl Future<Output = T>, monitor: &AgentMonitor) -> T {
    let mut progress = Progress::new("following");
    let mut work = std::pin::pin!(work);
    let mut before = None;
    loop {
        let wait = async {
            progress.tick().await;
            sleep(INTERVAL).await;
        };
        tokio::select! {
            done = &mut work => {
                progress.clear();
                return done;
            }
            () = wait => {}
        }
        let monitor = monitor.clone();
        let Ok(Some(status)) = spawn_blocking(move || monitor.status(0)).await else { continue };
        if let Some(before) = before.replace(status.clone()) {
            progress.show(&rate_text(&before, &status));
        }
    }
}

/// What happened between two states, and what waits in the later one.
fn rate_text(before: &AgentStatus, now: &AgentStatus) -> String {
    let none = FilesStatus::default();
    let (old, new) = (before.files.as_ref().unwrap_or(&none), now.files.as_ref().unwrap_or(&none));
    let seconds = now.now.saturating_sub(before.now).as_secs_f64().max(0.001);
    let lines = new.read_records.saturating_sub(old.read_records) as f64 / seconds;
    let bytes = new.read_bytes.saturating_sub(old.read_bytes) as f64 / seconds;
    let mut text = format!(": {lines:.0} lines/s, {}/s", human_bytes(bytes as u64));
    match new.lag_bytes {
        0 => text.push_str(", no lag"),
        lag => text.push_str(&format!(", lag {} {}", human_bytes(lag), human_seconds(new.lag.as_secs_f64()))),
    }
    text.push_str(&format!(", buffer {}", human_bytes(new.buffer_bytes)));
    match new.counters.gaps() {
        1 => text.push_str(", 1 gap"),
        gaps => text.push_str(&format!(", {gaps} gaps")),
    }
    if new.dropped_records > 0 {
        text.push_str(&format!(", {} records dropped", new.dropped_records));
    }
    if now.connection.address.is_none() {
        text.push_str(", no node accepts");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(seconds: u64, files: FilesStatus) -> AgentStatus {
        AgentStatus { now: Duration::from_secs(seconds), files: Some(files), ..AgentStatus::default() }
    }

    #[test]
    fn the_rate_is_that_of_the_time_between_two_states() {
        let before = status(10, FilesStatus { read_records: 100, read_bytes: 1_000, ..FilesStatus::default() });
        let mut now = status(12, FilesStatus { read_records: 300, read_bytes: 41_960, ..FilesStatus::default() });
        let check = |now: &AgentStatus, want: &str| assert_eq!(rate_text(&before, now), want);
        check(&now, ": 100 lines/s, 20.0 KB/s, no lag, buffer 0 B, 0 gaps, no node accepts");
        now.connection.address = Some("a:1".to_owned());
        if let Some(files) = &mut now.files {
            (files.lag_bytes, files.lag, files.buffer_bytes) = (3 << 20, Duration::from_secs(7), 5 << 10);
            (files.counters.gaps_vanished, files.dropped_records) = (1, 9);
        }
        check(&now, ": 100 lines/s, 20.0 KB/s, lag 3.0 MB 7.0 s, buffer 5.0 KB, 1 gap, 9 records dropped");
    }
}
