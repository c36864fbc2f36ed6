//! What a running node uses beside what its work costs by a calibration, and how much more it can carry.
//!
//! The head-room is an extrapolation of the present load: CPU grows in proportion to the load (the utilisation law, as in
//! Denning and Buzen, "The Operational Analysis of Queueing Network Models", 1978), and the disk fills at its present
//! growth. Background work counts as load, although it yields to everything else.

use crate::calibration::Calibration;
use crate::question_kind::QuestionKind;
use crate::resource::Resource;
use crate::work_counters::{NodeRates, WorkCounters};

/// A running node, measured and predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadRoom {
    /// Cores that its process may use.
    pub cores: f64,
    /// Cores in use.
    pub cpu_measured: f64,
    /// Cores that its work would use by the calibration.
    pub cpu_predicted: f64,
    /// The load relative to the present one at which all of its cores are in use; infinite without load.
    pub cpu_factor: f64,
    /// Seconds until its disk is full at the present growth, so that it accepts nothing; infinite if it does not grow.
    pub disk_full_seconds: f64,
}

impl HeadRoom {
    /// The mean text per request that is assumed where none is known, in bytes: no metric has it.
    pub const REQUEST_BYTES: f64 = 262_144.0;

    /// Below this load factor the CPU has little head-room: a plan uses at most 80 % of it.
    pub const CPU_FACTOR_SMALL: f64 = 1.25;

    /// A disk that is full within this time has little head-room: a day leaves time to act.
    pub const DISK_SECONDS_SMALL: f64 = 86_400.0;

    /// The head-room of a node whose senders put about `request_bytes` into a request.
    #[must_use]
    pub fn of(rates: &NodeRates, now: &WorkCounters, calibration: &Calibration, request_bytes: f64) -> Self {
        let accept = &calibration.accept;
        let accepting = rates.accepted_bytes * (accept.seconds_per_byte + accept.seconds_per_request / request_bytes)
            + rates.accepted_records * accept.seconds_per_record
            + rates.commits * accept.seconds_per_commit;
        let storing = rates.copied_bytes * calibration.store.seconds_per_byte
            + rates.merged_bytes * calibration.store.merge_seconds_per_byte;
        // The kinds of the questions are not in the metrics, so the text that was searched counts as that of a frequent word.
        let question = calibration.question(QuestionKind::Word);
        let searching = question.map_or(0.0, |cost| {
            rates.questions * cost.fixed_seconds + rates.scanned_bytes * cost.cached_seconds_per_byte
        });
        let ratio = |limit: f64, used: f64| if used > 0.0 { limit / used } else { f64::INFINITY };
        Self {
            cores: now.cores,
            cpu_measured: rates.cpu_cores,
            cpu_predicted: calibration.base_cores + accepting + storing + searching,
            cpu_factor: ratio(now.cores, rates.cpu_cores),
            disk_full_seconds: ratio((now.disk_free_bytes - now.disk_reserve_bytes).max(0.0), rates.disk_growth),
        }
    }

    /// The resource that limits a growing load first: its CPU is full, or its disk is full within a day. `None` if the
    /// present load uses neither.
    #[must_use]
    pub fn limited_by(&self) -> Option<Resource> {
        let disk_factor = self.disk_full_seconds / Self::DISK_SECONDS_SMALL;
        match (self.cpu_factor, disk_factor) {
            (cpu, disk) if cpu.is_infinite() && disk.is_infinite() => None,
            (cpu, disk) if disk < cpu => Some(Resource::DiskSpace),
            _ => Some(Resource::Cpu),
        }
    }

    /// The resources with little head-room.
    pub fn small(&self) -> impl Iterator<Item = Resource> {
        let cpu = (self.cpu_factor < Self::CPU_FACTOR_SMALL).then_some(Resource::Cpu);
        let disk = (self.disk_full_seconds < Self::DISK_SECONDS_SMALL).then_some(Resource::DiskSpace);
        cpu.into_iter().chain(disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::calibration;

    const DAY: f64 = 86_400.0;

    #[test]
    fn predicted_cpu_is_work_times_cost() {
        let rates = NodeRates { accepted_bytes: 1e7, copied_bytes: 2e7, cpu_cores: 0.5, ..NodeRates::default() };
        let now = WorkCounters { cores: 2.0, ..WorkCounters::default() };
        let found = HeadRoom::of(&rates, &now, &calibration(), 1e6);
        // 1e7 bytes at 1 ns and a tenth of 1 ns for requests, and 2e7 bytes at 5 ns.
        assert!((found.cpu_predicted - (0.011 + 0.1)).abs() < 1e-12, "{found:?}");
        assert_eq!((found.cpu_factor, found.disk_full_seconds), (4.0, f64::INFINITY));
        let rates = NodeRates { questions: 10.0, scanned_bytes: 1e9, accepted_records: 1e5, ..NodeRates::default() };
        let found = HeadRoom::of(&rates, &now, &calibration(), 1e6);
        assert!((found.cpu_predicted - (10.0 * 1e-3 + 0.1 + 0.01)).abs() < 1e-12, "{found:?}");
        let rates = NodeRates { commits: 10.0, merged_bytes: 1e6, ..NodeRates::default() };
        let mut costs = calibration();
        (costs.accept.seconds_per_commit, costs.store.merge_seconds_per_byte) = (1e-3, 2e-9);
        let found = HeadRoom::of(&rates, &now, &costs, 1e6);
        assert!((found.cpu_predicted - 0.012).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn an_idle_node_has_no_limit() {
        let now = WorkCounters { cores: 2.0, disk_free_bytes: 1e9, ..WorkCounters::default() };
        let idle = HeadRoom::of(&NodeRates::default(), &now, &calibration(), 1e6);
        assert_eq!((idle.cpu_predicted, idle.cpu_factor), (0.0, f64::INFINITY));
        assert_eq!((idle.limited_by(), idle.small().count()), (None, 0));
        let shrinking = NodeRates { disk_growth: -1e6, ..NodeRates::default() };
        assert!(HeadRoom::of(&shrinking, &now, &calibration(), 1e6).disk_full_seconds.is_infinite());
    }

    #[test]
    fn a_disk_is_full_at_its_reserve() {
        let rates = NodeRates { disk_growth: 1e3, ..NodeRates::default() };
        let now = WorkCounters { disk_free_bytes: 3e6, disk_reserve_bytes: 1e6, ..WorkCounters::default() };
        assert_eq!(HeadRoom::of(&rates, &now, &calibration(), 1e6).disk_full_seconds, 2e3);
        let full = WorkCounters { disk_reserve_bytes: 4e6, ..now };
        assert_eq!(HeadRoom::of(&rates, &full, &calibration(), 1e6).disk_full_seconds, 0.0);
    }

    #[test]
    fn the_first_limit_of_a_growing_load_is_named() {
        let check = |cpu_factor: f64, disk_full_seconds: f64, limit: Option<Resource>, small: &[Resource]| {
            let room = HeadRoom { cores: 2.0, cpu_measured: 1.0, cpu_predicted: 1.0, cpu_factor, disk_full_seconds };
            assert_eq!(room.limited_by(), limit, "{room:?}");
            assert_eq!(room.small().collect::<Vec<Resource>>(), small, "{room:?}");
        };
        let (cpu, disk) = (Resource::Cpu, Resource::DiskSpace);
        check(f64::INFINITY, f64::INFINITY, None, &[]);
        check(3.0, f64::INFINITY, Some(cpu), &[]);
        check(3.0, 4.0 * DAY, Some(cpu), &[]);
        check(3.0, 2.0 * DAY, Some(disk), &[]);
        check(f64::INFINITY, 2.0 * DAY, Some(disk), &[]);
        check(1.25, DAY, Some(disk), &[]);
        check(1.2, 2.0 * DAY, Some(cpu), &[cpu]);
        check(3.0, 0.5 * DAY, Some(disk), &[disk]);
        check(0.9, 0.0, Some(disk), &[cpu, disk]);
    }
}
