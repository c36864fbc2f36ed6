//! Injects the faults of a run and ends them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use bucksaw_env::sim::{Delay, Host, NetworkConditions, PowerCutLoss, World};
use bucksaw_record::Id;

use crate::fault_kind::{DESTROY, LOSE_DISK};
use crate::file_damage::{FileDamager, InjectedDamage};
use crate::ledger::RecordLedger;
use crate::machine::Machine;
use crate::rng::SeededRng;
use crate::scenario::Scenario;
use crate::settings::DIR;
use crate::sim_cluster::SimCluster;

/// How long a torn power cut waits for a write to a queue.
const TEAR_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a machine is down.
const DOWN_TIME: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(20));

/// How long a machine is paused.
const PAUSE_TIME: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(40));

/// How long links are clogged.
const CLOG_TIME: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(15));

/// Maximum error of a wall clock; below the retention age, at which records are removed.
const CLOCK_MS_MAX: i64 = 3 * 24 * 3_600_000;

/// From this error on a node may ignore the time in an idempotency key.
const CLOCK_MS_KEY_MAX: i64 = 600_000;

/// Maximum time of failing reads.
const UNREADABLE_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum time of a short disk-full condition, and its free space: room for a few frames.
const FULL_TIME_MAX: Duration = Duration::from_secs(3);
const FULL_FREE_BYTES: usize = 2_000;

/// The end of a stored segment that contains the footer.
const FOOTER_BYTES: usize = 200;

/// Maximum bytes damaged at once: more than a sector, so that parity cannot always rebuild them.
const DAMAGED_BYTES_MAX: usize = 6_000;

pub(crate) struct SimFaultInjector<'a> {
    world: &'a World,
    rng: &'a SeededRng,
    ledger: &'a RecordLedger,
    scenario: &'a Scenario,
    /// Machines that are down, and when each starts.
    down: Vec<(Duration, usize)>,
    /// Paused machines, and when each resumes.
    paused: Vec<(Duration, usize)>,
    /// Machines with failing reads, and until when.
    unreadable: Vec<(Duration, usize)>,
    /// Machines of a rolling restart that are still to be restarted.
    rolling: Vec<usize>,
    /// Machines that leave for good when their stop ends.
    leaving: BTreeSet<usize>,
    /// Errors of the wall clocks, in milliseconds.
    clock_offsets: BTreeMap<usize, i64>,
    /// Machines with full disks, and until when.
    full: Vec<(Duration, usize)>,
    /// The machine of the last fault.
    last_machine: usize,
    destroys_store: bool,
    loses_disk: bool,
    /// A fault may have damaged queue files.
    may_have_damaged_queue: bool,
    leaver: Option<usize>,
    late_joiners: Vec<usize>,
    file_damager: Option<FileDamager>,
}

impl<'a> SimFaultInjector<'a> {
    pub(crate) fn new(world: &'a World, rng: &'a SeededRng, ledger: &'a RecordLedger, scenario: &'a Scenario) -> Self {
        Self {
            world,
            rng,
            ledger,
            scenario,
            down: Vec::new(),
            paused: Vec::new(),
            unreadable: Vec::new(),
            rolling: Vec::new(),
            leaving: BTreeSet::new(),
            clock_offsets: BTreeMap::new(),
            full: Vec::new(),
            last_machine: 0,
            destroys_store: scenario.destroys_store,
            loses_disk: scenario.loses_disk,
            may_have_damaged_queue: false,
            leaver: scenario.leaver,
            late_joiners: scenario.late_joiners.clone(),
            file_damager: scenario.damage_seed.map(FileDamager::new),
        }
    }

    /// The number of damaged files outside of stores.
    pub(crate) fn damaged_files(&self) -> usize {
        self.file_damager.as_ref().map_or(0, |damager| damager.damaged_files)
    }

    /// Whether a fault may have damaged queue files: torn unsynced writes, or failing reads.
    pub(crate) fn may_have_damaged_queue(&self) -> bool {
        self.may_have_damaged_queue
    }

    /// Ends the faults whose time has passed.
    pub(crate) fn end_expired(&mut self, cluster: &mut SimCluster) {
        let now = self.world.now();
        if let Some(damager) = &mut self.file_damager {
            damager.end_expired(cluster, now, false);
        }
        for at in take_expired(&mut self.paused, now) {
            with_machine(cluster, at, |machine| machine.host.resume());
        }
        for at in take_expired(&mut self.unreadable, now) {
            self.ledger.forget_keys(at);
            with_machine(cluster, at, |machine| set_readable(machine, true));
        }
        for at in take_expired(&mut self.full, now) {
            with_machine(cluster, at, |machine| machine.host.fs().set_capacity(None));
        }
        for at in take_expired(&mut self.down, now) {
            with_machine(cluster, at, Machine::start);
            if cluster.machines.get(at).is_some_and(|machine| machine.node().is_none() && !machine.cannot_start) {
                self.down.push((now + Duration::from_secs(1), at));
            }
        }
        for at in 0..cluster.machines.len() {
            self.handle_stopped(cluster, at, now);
        }
        if let Some(at) = self.rolling.last().copied() {
            let all_up = cluster.machines.iter().all(|machine| machine.cannot_start || machine.is_steady());
            if all_up {
                self.rolling.pop();
                with_machine(cluster, at, Machine::stop);
            }
        }
    }

    /// Schedules the restart of a machine whose node has stopped, or retires it if the node leaves.
    fn handle_stopped(&mut self, cluster: &mut SimCluster, at: usize, now: Duration) {
        let Some(machine) = cluster.machines.get_mut(at) else { return };
        // The records of quarantined files would be lost with the disk.
        let has_damaged_files = machine.node().is_some_and(|node| !node.queue.damaged_file_names().is_empty());
        let Some(outcome) = machine.take_stop_outcome() else { return };
        if self.leaving.remove(&at) && !has_damaged_files && outcome.drained {
            // Stores have all records that it accepted.
            self.ledger.remove_damage(at);
            machine.retire(outcome.leave_acknowledged);
            return;
        }
        self.down.push((now + self.rng.duration(Duration::from_millis(100), Duration::from_secs(3)), at));
    }

    /// Injects or ends one fault.
    pub(crate) fn inject(&mut self, cluster: &mut SimCluster) {
        // In 70 % of the cases another machine is selected; otherwise the faults of the previous one coincide.
        if self.rng.percent(70) {
            self.last_machine = self.rng.below(cluster.machines.len());
        }
        let at = self.last_machine;
        let Some(fault) = self.rng.choose(&self.scenario.faults) else { return };
        tracing::debug!(fault, machine = at, "fault injected");
        match *fault {
            0 | 1 => self.kill(cluster, at),
            2 | 3 => self.cut_power(cluster, at),
            4 | 5 => self.pause(cluster, at),
            6 | 7 => self.partition(cluster),
            8 | 9 => self.world.network().heal_all(),
            10 => self.clog(cluster),
            11 => self.jump_clock(cluster, at),
            12 | 13 => self.fail_syncs(cluster, at),
            14 => self.slow_down(cluster, at),
            15 | 16 => self.fill(cluster, at),
            17 => self.damage_stored_segment(cluster),
            18 => (0..cluster.machines.len()).for_each(|at| self.cut_power(cluster, at)),
            19 => self.rolling = (0..cluster.machines.len()).collect(),
            20 => with_machine(cluster, at, Machine::stop),
            21 => self.leave(cluster),
            DESTROY | 23 => self.destroy(cluster),
            LOSE_DISK | 26 => self.lose_disk(cluster),
            _ => self.fail_reads(cluster, at),
        }
        if self.rng.percent(20) {
            self.join(cluster);
        }
        self.damage_file(cluster);
    }

    /// Damages a file, or exhausts descriptors.
    fn damage_file(&mut self, cluster: &mut SimCluster) {
        let Some(damager) = &mut self.file_damager else { return };
        match damager.inject(cluster, self.ledger, self.world.now()) {
            None => return,
            Some(InjectedDamage::Damaged(at)) => {
                if damager.should_kill() {
                    self.kill(cluster, at);
                }
            }
            // A start that cannot read a queue segment does not find its keys.
            Some(InjectedDamage::DescriptorsLimited(at)) => self.ledger.forget_keys(at),
        }
        self.may_have_damaged_queue = true;
    }

    fn kill(&mut self, cluster: &mut SimCluster, at: usize) {
        let Some(machine) = cluster.machines.get_mut(at).filter(|machine| machine.node().is_some()) else { return };
        machine.kill();
        self.schedule_start(at);
    }

    fn cut_power(&mut self, cluster: &mut SimCluster, at: usize) {
        if cluster.machines.get(at).is_none_or(|machine| machine.node().is_none()) {
            return;
        }
        let how = self
            .rng
            .choose(&[PowerCutLoss::All, PowerCutLoss::None, PowerCutLoss::Torn])
            .copied()
            .unwrap_or(PowerCutLoss::All);
        if how == PowerCutLoss::Torn {
            // Nearly always everything is synced. Without this wait hardly any frame would be torn behind durable ones.
            let disk = cluster.machines.get(at).map(|machine| machine.host.fs());
            self.world.run_until(|| disk.as_ref().is_none_or(|disk| disk.is_half_synced("/queue/")), TEAR_TIMEOUT);
        }
        let kept = cluster.replicated_without(at);
        let Some(machine) = cluster.machines.get_mut(at) else { return };
        self.may_have_damaged_queue = true;
        machine.cut_power(how);
        self.ledger.record_power_cut(at, machine.data_losses, &kept);
        self.schedule_start(at);
    }

    fn schedule_start(&mut self, at: usize) {
        self.leaving.remove(&at);
        self.down.push((self.world.now() + self.rng.duration(DOWN_TIME.0, DOWN_TIME.1), at));
    }

    fn pause(&mut self, cluster: &mut SimCluster, at: usize) {
        let Some(machine) = cluster.machines.get(at).filter(|machine| machine.node().is_some()) else { return };
        machine.host.pause();
        self.paused.push((self.world.now() + self.rng.duration(PAUSE_TIME.0, PAUSE_TIME.1), at));
    }

    fn partition(&self, cluster: &SimCluster) {
        let hosts = cluster.hosts();
        let (left, right) = self.random_halves(&hosts);
        if self.rng.percent(50) {
            self.world.network().partition(&left, &right);
        } else {
            self.world.network().cut(&left, &right);
        }
    }

    fn clog(&self, cluster: &SimCluster) {
        let hosts = cluster.hosts();
        let (left, right) = self.random_halves(&hosts);
        self.world.network().clog(&left, &right, self.rng.duration(CLOG_TIME.0, CLOG_TIME.1));
    }

    fn random_halves<'h>(&self, hosts: &'h [Host]) -> (Vec<&'h Host>, Vec<&'h Host>) {
        hosts.iter().partition(|_| self.rng.percent(50))
    }

    fn jump_clock(&mut self, cluster: &SimCluster, at: usize) {
        let offset_max = if self.rng.percent(50) { 60_000 } else { CLOCK_MS_MAX };
        let offset = self.clock_offsets.entry(at).or_default();
        let new = self.rng.between(0, 2 * offset_max as usize) as i64 - offset_max;
        if let Some(machine) = cluster.machines.get(at) {
            machine.host.jump_clock(new - *offset);
            *offset = new;
            if new.abs() > CLOCK_MS_KEY_MAX {
                self.ledger.record_skewed_clock(at);
            }
        }
    }

    fn fail_syncs(&self, cluster: &SimCluster, at: usize) {
        let partial = self.rng.below(100) as f64 / 100.0;
        let share = self.rng.choose(&[0.0, partial, partial, 1.0]).copied().unwrap_or_default();
        if let Some(machine) = cluster.machines.get(at) {
            machine.host.fs().fail_some_syncs(share, self.rng.next_u64());
        }
    }

    fn slow_down(&self, cluster: &SimCluster, at: usize) {
        let delay_max = Duration::from_millis(self.rng.choose(&[0, 10, 500, 3_000]).copied().unwrap_or_default());
        if let Some(machine) = cluster.machines.get(at) {
            machine.host.set_blocking_delay(Delay::uniform(Duration::ZERO, delay_max));
        }
    }

    fn fill(&mut self, cluster: &SimCluster, at: usize) {
        let Some(machine) = cluster.machines.get(at) else { return };
        let free = self.scenario.reserve as usize + (64 << 10);
        if self.rng.percent(60) {
            let is_tight = self.rng.percent(50);
            machine.host.fs().fill(self.rng.below(if is_tight { FULL_FREE_BYTES } else { free }) as u64);
            if self.rng.percent(50) {
                let time_max = if is_tight { FULL_TIME_MAX / 3 } else { FULL_TIME_MAX };
                self.full.push((self.world.now() + self.rng.duration(Duration::ZERO, time_max), at));
            }
        } else {
            machine.host.fs().set_capacity(None);
        }
    }

    /// Flips bits or overwrites a part of a stored segment on a faulty store: anywhere, or in the footer, which the next start
    /// reads.
    fn damage_stored_segment(&mut self, cluster: &mut SimCluster) {
        let Some(at) = self.rng.choose(&self.scenario.faulty_stores).copied() else { return };
        let Some(machine) = cluster.machines.get(at).filter(|machine| !machine.destroyed) else { return };
        let disk = machine.host.fs();
        let store = Path::new(DIR).join("store");
        let paths: Vec<_> = disk.paths().into_iter().filter(|path| path.starts_with(&store)).collect();
        let Some(path) = self.rng.choose(&paths) else { return };
        cluster.record_damage(at, path);
        let bytes = disk.live_bytes(path).unwrap_or_default().len();
        let is_footer = self.rng.percent(50);
        let span = if is_footer { bytes.min(FOOTER_BYTES) } else { bytes };
        if self.rng.percent(50) && span > 0 {
            // More than parity rebuilds.
            let from = bytes - span + self.rng.below(span);
            let to = (from + self.rng.between(1, DAMAGED_BYTES_MAX)).min(bytes);
            disk.corrupt(path, from as u64..to as u64);
        } else {
            for _ in 0..self.rng.between(1, 3) {
                disk.flip_bit(path, ((bytes - span) * 8 + self.rng.below(span * 8)) as u64);
            }
        }
        cluster.clear_cache(at);
        if is_footer {
            self.kill(cluster, at);
        }
    }

    fn fail_reads(&mut self, cluster: &mut SimCluster, at: usize) {
        self.may_have_damaged_queue = true;
        self.ledger.forget_keys(at);
        with_machine(cluster, at, |machine| set_readable(machine, false));
        self.unreadable.push((self.world.now() + self.rng.duration(Duration::ZERO, UNREADABLE_TIME_MAX), at));
    }

    fn join(&mut self, cluster: &mut SimCluster) {
        for at in std::mem::take(&mut self.late_joiners) {
            with_machine(cluster, at, |machine| {
                machine.cannot_start = false;
                machine.start();
            });
        }
    }

    fn leave(&mut self, cluster: &mut SimCluster) {
        let Some(at) = self.leaver else { return };
        if cluster.machines.get(at).is_some_and(Machine::is_steady) {
            self.leaver = None;
            self.leaving.insert(at);
            with_machine(cluster, at, Machine::stop);
        }
    }

    /// Destroys a faulty store with its disk.
    fn destroy(&mut self, cluster: &mut SimCluster) {
        if !std::mem::take(&mut self.destroys_store) {
            return;
        }
        let Some(at) = self.rng.choose(&self.scenario.faulty_stores).copied() else { return };
        let kept = cluster.replicated_without(at);
        cluster.record_loss(at, &kept);
        with_machine(cluster, at, Machine::destroy);
        self.record_disk_loss(cluster, at, &kept);
    }

    /// Replaces the disk of a faulty store by an empty one.
    fn lose_disk(&mut self, cluster: &mut SimCluster) {
        let Some(at) = self.rng.choose(&self.scenario.faulty_stores).copied().filter(|_| self.loses_disk) else {
            return;
        };
        if cluster.machines.get(at).is_none_or(|machine| machine.node().is_none()) {
            return;
        }
        self.loses_disk = false;
        let kept = cluster.replicated_without(at);
        cluster.record_loss(at, &kept);
        with_machine(cluster, at, Machine::lose_disk);
        self.record_disk_loss(cluster, at, &kept);
        self.schedule_start(at);
    }

    fn record_disk_loss(&self, cluster: &SimCluster, at: usize, kept: &BTreeSet<Id>) {
        cluster.clear_cache(at);
        if let Some(machine) = cluster.machines.get(at) {
            self.ledger.record_disk_loss(at, machine.data_losses, kept);
        }
    }

    /// Ends all faults.
    pub(crate) fn end_all(&mut self, cluster: &mut SimCluster) {
        if let Some(damager) = &mut self.file_damager {
            damager.end_expired(cluster, self.world.now(), true);
        }
        self.world.network().heal_all();
        self.world.network().set_conditions(NetworkConditions::HEALTHY);
        self.join(cluster);
        self.rolling.clear();
        self.paused.clear();
        for machine in &mut cluster.machines {
            machine.host.resume();
            machine.host.set_blocking_delay(Delay::uniform(Duration::ZERO, Duration::from_millis(1)));
            machine.host.fs().set_capacity(None);
            machine.host.fs().fail_some_syncs(0.0, 0);
            set_readable(machine, true);
            if machine.is_steady() || machine.node().is_none() {
                machine.start();
            }
        }
        if self.rng.percent(30) {
            // A start finds damage that nothing else finds.
            self.leaving.clear();
            for machine in &mut cluster.machines {
                machine.kill();
                machine.start();
            }
        }
        // Stopping nodes end, or are started again.
        self.down.clear();
        self.unreadable.clear();
    }
}

fn with_machine(cluster: &mut SimCluster, at: usize, action: impl FnOnce(&mut Machine)) {
    if let Some(machine) = cluster.machines.get_mut(at) {
        action(machine);
    }
}

fn set_readable(machine: &Machine, readable: bool) {
    machine.host.fs().fail_reads_of("/store/", !readable);
    machine.host.fs().fail_reads_of("/queue/", !readable);
}

fn take_expired(list: &mut Vec<(Duration, usize)>, now: Duration) -> Vec<usize> {
    let (expired, rest): (Vec<_>, Vec<_>) = std::mem::take(list).into_iter().partition(|(until, _)| *until <= now);
    *list = rest;
    expired.into_iter().map(|(_, at)| at).collect()
}
