//! Incidents: a few seconds in which a service fails, between longer quiet periods.
//!
//! Incidents are scheduled by time and not by number of lines, so that they are peaks in a histogram at any rate.

use crate::rng::Rng;

/// Minimum milliseconds between two incidents; up to [`QUIET_MS_SPREAD`] more are added.
const QUIET_MS_MIN: u64 = 30_000;
const QUIET_MS_SPREAD: u32 = 90_000;
/// Minimum milliseconds of an incident; up to `INCIDENT_MS_SPREAD` more are added.
const INCIDENT_MS_MIN: u64 = 500;
const INCIDENT_MS_SPREAD: u32 = 5_000;

/// The level of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum LogLevel {
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

impl LogLevel {
    pub(crate) const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warn, Self::Error];

    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// In capitals, padded to five characters.
    pub(crate) fn padded_name(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO ",
            Self::Warn => "WARN ",
            Self::Error => "ERROR",
        }
    }
}

/// Decides the level of each line.
#[derive(Clone, Debug)]
pub(crate) struct IncidentSchedule {
    incident_start_ms: u64,
    incident_end_ms: u64,
    failing_service: u32,
}

impl IncidentSchedule {
    pub(crate) fn new(rng: &mut Rng, start: u64) -> Self {
        let mut schedule = Self { incident_start_ms: 0, incident_end_ms: 0, failing_service: 0 };
        schedule.schedule_next(rng, start);
        schedule
    }

    /// Sets the time of the next line.
    pub(crate) fn advance_to(&mut self, rng: &mut Rng, unix_ms: u64) {
        if unix_ms >= self.incident_end_ms {
            self.schedule_next(rng, unix_ms);
        }
    }

    /// During an incident, a number that is constant for the incident and identifies the failing service.
    pub(crate) fn failing_service(&self, unix_ms: u64) -> Option<u32> {
        (self.incident_start_ms..self.incident_end_ms).contains(&unix_ms).then_some(self.failing_service)
    }

    /// A random level, more severe during an incident. About four percent of all lines are errors.
    pub(crate) fn level(rng: &mut Rng, in_incident: bool) -> LogLevel {
        let (errors, warnings) = if in_incident { (350, 150) } else { (30, 78) };
        match rng.below(1_000) {
            draw if draw < errors => LogLevel::Error,
            draw if draw < errors + warnings => LogLevel::Warn,
            draw if draw < errors + warnings + 30 => LogLevel::Debug,
            _ => LogLevel::Info,
        }
    }

    /// Schedules the next incident from the current time, so that a jump in time costs nothing.
    fn schedule_next(&mut self, rng: &mut Rng, now: u64) {
        self.incident_start_ms = now.saturating_add(QUIET_MS_MIN + u64::from(rng.below(QUIET_MS_SPREAD)));
        let lasts = INCIDENT_MS_MIN + u64::from(rng.below(INCIDENT_MS_SPREAD));
        self.incident_end_ms = self.incident_start_ms.saturating_add(lasts);
        self.failing_service = rng.below(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_the_expected_shares_and_errors_come_in_bursts() {
        let mut rng = Rng::new(5);
        let mut schedule = IncidentSchedule::new(&mut rng, 0);
        let mut shares = [0u32; 4];
        let mut per_second = vec![0u32; 10_000];
        for ms in 0..10_000_000u64 {
            schedule.advance_to(&mut rng, ms);
            let in_incident = schedule.failing_service(ms).is_some();
            let level = IncidentSchedule::level(&mut rng, in_incident);
            shares[level as usize] += 1;
            per_second[ms as usize / 1_000] += u32::from(level == LogLevel::Error);
        }
        let [debug, info, warn, error] = shares.map(|lines| f64::from(lines) / 100_000.0);
        assert!((2.5..3.5).contains(&debug), "{debug}");
        assert!((83.0..88.0).contains(&info), "{info}");
        assert!((7.0..9.0).contains(&warn), "{warn}");
        assert!((3.2..5.0).contains(&error), "{error}");
        let peaks = per_second.iter().filter(|&&errors| errors > 250).count();
        assert!((100..1_000).contains(&peaks), "{peaks} seconds of incidents in 10,000");
    }

    #[test]
    fn time_jumps_are_cheap() {
        let mut rng = Rng::new(5);
        let mut incidents = IncidentSchedule::new(&mut rng, 1_000_000);
        for ms in [u64::MAX, 0, u64::MAX - 1, 5, u64::MAX] {
            incidents.advance_to(&mut rng, ms);
            incidents.failing_service(ms);
        }
    }
}
