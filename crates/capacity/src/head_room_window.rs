//! The head-room of a running node over a sliding window of its counters.
//!
//! CPU and rates are those of the last minute. The disk has a longer window, up to an hour: gathers, compaction and
//! retention change its free bytes in steps, and within a minute one step hides the growth. Times are uptimes of the
//! node, so a step of the wall clock has no effect. About 70 samples are kept, 10 kB.

use std::collections::VecDeque;
use std::time::Duration;

use crate::calibration::Calibration;
use crate::head_room::HeadRoom;
use crate::work_counters::{NodeRates, WorkCounters};

/// The longest time over which rates are means, and the shortest time after which they are known.
const RATES_MAX: Duration = Duration::from_secs(60);
const RATES_MIN: Duration = Duration::from_secs(30);

/// The same of the growth of the disk.
const GROWTH_MAX: Duration = Duration::from_secs(3_600);
const GROWTH_MIN: Duration = Duration::from_secs(300);

/// Time between samples of the disk.
const GROWTH_STEP: Duration = Duration::from_secs(60);

/// Samples of the last minute, so that samples at a wrong pace need no more memory.
const RECENT_MAX: usize = 240;

/// Counters of a node over the last minute, and the free bytes of its disk over the last hour.
#[derive(Clone, Debug, Default)]
pub struct HeadRoomWindow {
    /// Uptime and counters, oldest first.
    recent: VecDeque<(Duration, WorkCounters)>,
    /// Uptime and free bytes, oldest first.
    disk: VecDeque<(Duration, f64)>,
}

/// The head-room of a node over the last minute, its disk over the last hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecentHeadRoom {
    /// The head-room. [`HeadRoom::disk_full_seconds`] is infinite while the growth of the disk is not known.
    pub room: HeadRoom,
    /// Seconds over which the rates are means.
    pub seconds: f64,
    /// Seconds over which the growth of the disk is a mean; `None` while it is not known.
    pub disk_seconds: Option<f64>,
    /// Bytes per second by which the free bytes of the disk shrank; negative if they grew, 0 while that is not known.
    pub disk_growth: f64,
}

impl HeadRoomWindow {
    /// Adds the counters at an uptime of the node. Everything is forgotten if the uptime is not later than the last
    /// one, if the process restarted, or if no sample came for a minute: the node was paused.
    pub fn add(&mut self, uptime: Duration, counters: WorkCounters) {
        if self.recent.back().is_some_and(|(at, last)| is_broken(*at, last, uptime, &counters)) {
            self.recent.clear();
            self.disk.clear();
        }
        self.recent.push_back((uptime, counters));
        let is_old = |at: &Duration, max: Duration| uptime.saturating_sub(*at) > max;
        while self.recent.len() > RECENT_MAX || self.recent.front().is_some_and(|(at, _)| is_old(at, RATES_MAX)) {
            self.recent.pop_front();
        }
        if self.disk.back().is_none_or(|(at, _)| uptime.saturating_sub(*at) >= GROWTH_STEP) {
            self.disk.push_back((uptime, counters.disk_free_bytes));
        }
        while self.disk.front().is_some_and(|(at, _)| is_old(at, GROWTH_MAX)) {
            self.disk.pop_front();
        }
    }

    /// The head-room; `None` while it is not known: during the first half minute after the start or a pause.
    #[must_use]
    pub fn head_room(&self, calibration: &Calibration, request_bytes: f64) -> Option<RecentHeadRoom> {
        let ((first_at, first), (now_at, now)) = (self.recent.front()?, self.recent.back()?);
        let time = now_at.saturating_sub(*first_at);
        let rates = now.since(first, time).filter(|_| time >= RATES_MIN)?;
        let growth = self.disk.front().and_then(|(at, free)| {
            let time = now_at.saturating_sub(*at);
            (time >= GROWTH_MIN).then(|| (time.as_secs_f64(), (free - now.disk_free_bytes) / time.as_secs_f64()))
        });
        let (disk_seconds, disk_growth) = growth.unzip();
        let rates = NodeRates { disk_growth: disk_growth.unwrap_or_default(), ..rates };
        Some(RecentHeadRoom {
            room: HeadRoom::of(&rates, now, calibration, request_bytes),
            seconds: rates.seconds,
            disk_seconds,
            disk_growth: rates.disk_growth,
        })
    }
}

/// Whether no rates follow from two samples.
fn is_broken(last_at: Duration, last: &WorkCounters, uptime: Duration, counters: &WorkCounters) -> bool {
    let gap = uptime.saturating_sub(last_at);
    gap > RATES_MAX || counters.since(last, gap).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::calibration;

    /// A window to which a node with constant load added samples each 5 s from one uptime to another: half a core of two,
    /// 1 kB/s of its disk of 1 MB.
    fn add(window: &mut HeadRoomWindow, from: u64, to: u64) {
        for at in (from..=to).step_by(5) {
            window.add(Duration::from_secs(at), counters(at as f64));
        }
    }

    fn counters(at: f64) -> WorkCounters {
        WorkCounters { cpu_seconds: at / 2.0, disk_free_bytes: 1e6 - at, cores: 2.0, ..WorkCounters::default() }
    }

    fn found(window: &HeadRoomWindow) -> Option<RecentHeadRoom> {
        window.head_room(&calibration(), HeadRoom::REQUEST_BYTES)
    }

    #[test]
    fn the_head_room_is_known_after_half_a_minute() {
        let mut window = HeadRoomWindow::default();
        assert_eq!(found(&window), None);
        add(&mut window, 3, 28);
        assert_eq!(found(&window), None);
        add(&mut window, 33, 33);
        let room = found(&window).unwrap();
        assert_eq!((room.seconds, room.room.cpu_measured, room.room.cpu_factor), (30.0, 0.5, 4.0));
        assert_eq!((room.disk_seconds, room.room.disk_full_seconds), (None, f64::INFINITY));
        add(&mut window, 38, 298);
        assert_eq!(found(&window).unwrap().disk_seconds, None);
        add(&mut window, 303, 303);
        let room = found(&window).unwrap();
        assert_eq!((room.seconds, room.disk_seconds, room.disk_growth), (60.0, Some(300.0), 1.0));
        assert_eq!(room.room.disk_full_seconds, 1e6 - 303.0);
    }

    #[test]
    fn a_changed_load_is_seen_within_a_minute() {
        let mut window = HeadRoomWindow::default();
        add(&mut window, 0, 600);
        for at in (605..=660).step_by(5) {
            let cpu_seconds = 300.0 + 2.0 * (at - 600) as f64;
            window.add(Duration::from_secs(at), WorkCounters { cpu_seconds, ..counters(at as f64) });
        }
        let room = found(&window).unwrap().room;
        assert_eq!((room.cpu_measured, room.cpu_factor, room.limited_by()), (2.0, 1.0, Some(crate::Resource::Cpu)));
    }

    #[test]
    fn a_step_of_the_disk_counts_over_an_hour() {
        let mut window = HeadRoomWindow::default();
        add(&mut window, 0, 7_200);
        let written = WorkCounters { disk_free_bytes: 1e6 - 3_600.0 - 7_205.0, ..counters(7_205.0) };
        window.add(Duration::from_secs(7_205), written);
        let room = found(&window).unwrap();
        assert!((3_500.0..=3_600.0).contains(&room.disk_seconds.unwrap()), "{room:?}");
        assert!((room.disk_growth - 2.0).abs() < 0.03, "{room:?}");
    }

    #[test]
    fn a_pause_and_a_restart_begin_a_new_window() {
        let paused = |at| (at, counters(at as f64));
        let restarted = |at| (at, WorkCounters { cpu_seconds: 0.1, ..counters(at as f64) });
        for (at, counters) in [paused(661), restarted(605), paused(600), paused(9)] {
            let mut window = HeadRoomWindow::default();
            add(&mut window, 0, 600);
            window.add(Duration::from_secs(at), counters);
            assert_eq!(found(&window), None, "{at}");
            assert_eq!((window.recent.len(), window.disk.len()), (1, 1), "{at}");
        }
        // A sample that comes late does not.
        let mut window = HeadRoomWindow::default();
        add(&mut window, 0, 600);
        add(&mut window, 640, 640);
        assert_eq!(found(&window).unwrap().room.cpu_measured, 0.5);
    }

    #[test]
    fn the_window_is_bounded() {
        let mut window = HeadRoomWindow::default();
        for at in 0..100_000 {
            window.add(Duration::from_millis(at * 100), counters(at as f64));
        }
        assert_eq!((window.recent.len(), window.disk.len()), (RECENT_MAX, 60));
    }
}
