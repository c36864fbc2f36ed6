//! What goes wrong, one thing after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use bucksaw_env::sim::{Delay, Host, NetworkConditions, PowerCutLoss, World};
use bucksaw_record::Id;

use crate::file_damage::{FileDamager, InjectedDamage};
use crate::ledger::RecordLedger;
use crate::machine::{DIR, Machine};
use crate::rng::SeededRng;
use crate::scenario::Scenario;
use crate::sim_cluster::SimCluster;

/// Kinds of faults; what happens often has several numbers.
pub(crate) const FAULTS: usize = 27;

/// The number of the fault that destroys a store.
pub(crate) const DESTROY: usize = 22;

/// The number of the fault that loses the disk of a store.
pub(crate) const LOSE_DISK: usize = 25;

/// The numbers of the faults that kill processes, and of those that cut power.
pub(crate) const KILLS: [usize; 2] = [0, 1];
pub(crate) const POWER: [usize; 3] = [2, 3, 18];

/// The power goes while something is being written to a queue, if that happens within so much time.
const TEAR_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a machine is down, mostly.
const DOWN_TIME: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(20));

/// How long a machine stands still.
const PAUSE_TIME: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(40));

/// How long the way between machines is clogged.
const CLOG_TIME: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(15));

/// How far a wall clock is off at most. No farther than the retention, for what is older goes, and rightly.
const CLOCK_MS_MAX: i64 = 3 * 24 * 3_600_000;

/// From here on a node may take the time in a key for none.
const CLOCK_MS_KEY_MAX: i64 = 600_000;

/// How long reads fail at most.
const UNREADABLE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a disk is full that is so for a moment, and room on it that a few frames take.
const FULL_TIME_MAX: Duration = Duration::from_secs(3);
const FULL_FREE_BYTES: usize = 2_000;

/// The end of a file of the store, where its footer is.
const FOOTER_BYTES: usize = 200;

/// The most that is spoilt at once, in bytes: more than a sector, so that it cannot always be rebuilt.
const DAMAGED_BYTES_MAX: usize = 6_000;

/// Makes trouble, and ends it again.
pub(crate) struct SimFaultInjector<'a> {
    world: &'a World,
    rng: &'a SeededRng,
    ledger: &'a RecordLedger,
    scenario: &'a Scenario,
    /// Machines to be started again, and when.
    down: Vec<(Duration, usize)>,
    /// Machines to be let go on, and when.
    paused: Vec<(Duration, usize)>,
    /// Machines that are to be readable again, and when.
    unreadable: Vec<(Duration, usize)>,
    /// Machines that are restarted in good order, one after the other.
    rolling: Vec<usize>,
    /// Machines that are about to leave for good.
    leaving: BTreeSet<usize>,
    /// By how much wall clocks are off.
    clock_offsets: BTreeMap<usize, i64>,
    /// Machines whose disks have room again, and when.
    full: Vec<(Duration, usize)>,
    /// The machine with which something went wrong last.
    last_machine: usize,
    destroys_store: bool,
    loses_disk: bool,
    /// Something was done that may damage files of queues.
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

    /// Files that went bad outside of shelves.
    pub(crate) fn damaged_files(&self) -> usize {
        self.file_damager.as_ref().map_or(0, |rot| rot.damaged_files)
    }

    /// Whether something was done that may damage files of queues: what was not synced is lost in part, or cannot be read.
    pub(crate) fn may_have_damaged_queue(&self) -> bool {
        self.may_have_damaged_queue
    }

    /// Ends what is over.
    pub(crate) fn end_expired(&mut self, fleet: &mut SimCluster) {
        let now = self.world.now();
        if let Some(rot) = &mut self.file_damager {
            rot.end_expired(fleet, now, false);
        }
        for at in take_expired(&mut self.paused, now) {
            with_machine(fleet, at, |machine| machine.host.resume());
        }
        for at in take_expired(&mut self.unreadable, now) {
            self.ledger.forget_keys(at);
            with_machine(fleet, at, |machine| set_readable(machine, true));
        }
        for at in take_expired(&mut self.full, now) {
            with_machine(fleet, at, |machine| machine.host.fs().set_capacity(None));
        }
        for at in take_expired(&mut self.down, now) {
            with_machine(fleet, at, Machine::start);
            if fleet.machines.get(at).is_some_and(|machine| machine.node().is_none() && !machine.cannot_start) {
                self.down.push((now + Duration::from_secs(1), at));
            }
        }
        for at in 0..fleet.machines.len() {
            self.handle_stopped(fleet, at, now);
        }
        if let Some(at) = self.rolling.last().copied() {
            let all_up = fleet.machines.iter().all(|machine| machine.cannot_start || machine.is_steady());
            if all_up {
                self.rolling.pop();
                with_machine(fleet, at, Machine::stop);
            }
        }
    }

    /// Starts a machine again whose node has stopped in good order, or lets it go that leaves.
    fn handle_stopped(&mut self, fleet: &mut SimCluster, at: usize, now: Duration) {
        let Some(machine) = fleet.machines.get_mut(at) else { return };
        // What was set aside would be lost with the disk.
        let is_aside = machine.node().is_some_and(|node| !node.queue.damaged_file_names().is_empty());
        let Some(outcome) = machine.take_stop_outcome() else { return };
        if self.leaving.remove(&at) && !is_aside && outcome.drained {
            // Nothing that it took in is lost with its disk.
            self.ledger.remove_damage(at);
            machine.retire(outcome.leave_acknowledged);
            return;
        }
        self.down.push((now + self.rng.duration(Duration::from_millis(100), Duration::from_secs(3)), at));
    }

    /// Lets one thing go wrong, or come right.
    pub(crate) fn inject(&mut self, fleet: &mut SimCluster) {
        // What goes wrong twice with one machine goes wrong in more ways.
        if self.rng.percent(70) {
            self.last_machine = self.rng.below(fleet.machines.len());
        }
        let at = self.last_machine;
        let Some(fault) = self.rng.choose(&self.scenario.faults) else { return };
        tracing::debug!(fault, machine = at, "fault injected");
        match *fault {
            0 | 1 => self.kill(fleet, at),
            2 | 3 => self.cut_power(fleet, at),
            4 | 5 => self.pause(fleet, at),
            6 | 7 => self.partition(fleet),
            8 | 9 => self.world.network().heal_all(),
            10 => self.clog(fleet),
            11 => self.jump_clock(fleet, at),
            12 | 13 => self.fail_syncs(fleet, at),
            14 => self.slow_down(fleet, at),
            15 | 16 => self.fill(fleet, at),
            17 => self.damage_stored_segment(fleet),
            18 => (0..fleet.machines.len()).for_each(|at| self.cut_power(fleet, at)),
            19 => self.rolling = (0..fleet.machines.len()).collect(),
            20 => with_machine(fleet, at, Machine::stop),
            21 => self.leave(fleet),
            DESTROY | 23 => self.destroy(fleet),
            LOSE_DISK | 26 => self.lose_disk(fleet),
            _ => self.fail_reads(fleet, at),
        }
        if self.rng.percent(20) {
            self.join(fleet);
        }
        self.damage_file(fleet);
    }

    /// Damages a file, or exhausts descriptors.
    fn damage_file(&mut self, fleet: &mut SimCluster) {
        let Some(rot) = &mut self.file_damager else { return };
        match rot.inject(fleet, self.ledger, self.world.now()) {
            None => return,
            Some(InjectedDamage::Damaged(at)) => {
                if rot.should_kill() {
                    self.kill(fleet, at);
                }
            }
            // A start that cannot read a queue segment knows none of its keys.
            Some(InjectedDamage::DescriptorsLimited(at)) => self.ledger.forget_keys(at),
        }
        self.may_have_damaged_queue = true;
    }

    fn kill(&mut self, fleet: &mut SimCluster, at: usize) {
        let Some(machine) = fleet.machines.get_mut(at).filter(|machine| machine.node().is_some()) else { return };
        machine.kill();
        self.schedule_start(at);
    }

    fn cut_power(&mut self, fleet: &mut SimCluster, at: usize) {
        if fleet.machines.get(at).is_none_or(|machine| machine.node().is_none()) {
            return;
        }
        let how = self
            .rng
            .choose(&[PowerCutLoss::All, PowerCutLoss::None, PowerCutLoss::Torn])
            .copied()
            .unwrap_or(PowerCutLoss::All);
        if how == PowerCutLoss::Torn {
            // Nearly always everything is synced: without this hardly any frame would be torn behind others that must stay.
            let disk = fleet.machines.get(at).map(|machine| machine.host.fs());
            self.world.run_until(|| disk.as_ref().is_none_or(|disk| disk.is_half_synced("/queue/")), TEAR_TIMEOUT);
        }
        let kept = fleet.replicated_without(at);
        let Some(machine) = fleet.machines.get_mut(at) else { return };
        self.may_have_damaged_queue = true;
        machine.cut_power(how);
        self.ledger.record_power_cut(at, machine.data_losses, &kept);
        self.schedule_start(at);
    }

    fn schedule_start(&mut self, at: usize) {
        self.leaving.remove(&at);
        self.down.push((self.world.now() + self.rng.duration(DOWN_TIME.0, DOWN_TIME.1), at));
    }

    fn pause(&mut self, fleet: &mut SimCluster, at: usize) {
        let Some(machine) = fleet.machines.get(at).filter(|machine| machine.node().is_some()) else { return };
        machine.host.pause();
        self.paused.push((self.world.now() + self.rng.duration(PAUSE_TIME.0, PAUSE_TIME.1), at));
    }

    fn partition(&self, fleet: &SimCluster) {
        let hosts = fleet.hosts();
        let (some, others) = self.random_halves(&hosts);
        if self.rng.percent(50) {
            self.world.network().partition(&some, &others);
        } else {
            self.world.network().cut(&some, &others);
        }
    }

    fn clog(&self, fleet: &SimCluster) {
        let hosts = fleet.hosts();
        let (some, others) = self.random_halves(&hosts);
        self.world.network().clog(&some, &others, self.rng.duration(CLOG_TIME.0, CLOG_TIME.1));
    }

    fn random_halves<'h>(&self, hosts: &'h [Host]) -> (Vec<&'h Host>, Vec<&'h Host>) {
        hosts.iter().partition(|_| self.rng.percent(50))
    }

    fn jump_clock(&mut self, fleet: &SimCluster, at: usize) {
        let most = if self.rng.percent(50) { 60_000 } else { CLOCK_MS_MAX };
        let off = self.clock_offsets.entry(at).or_default();
        let new = self.rng.between(0, 2 * most as usize) as i64 - most;
        if let Some(machine) = fleet.machines.get(at) {
            machine.host.jump_clock(new - *off);
            *off = new;
            if new.abs() > CLOCK_MS_KEY_MAX {
                self.ledger.record_skewed_clock(at);
            }
        }
    }

    fn fail_syncs(&self, fleet: &SimCluster, at: usize) {
        let some = self.rng.below(100) as f64 / 100.0;
        let share = self.rng.choose(&[0.0, some, some, 1.0]).copied().unwrap_or_default();
        if let Some(machine) = fleet.machines.get(at) {
            machine.host.fs().fail_some_syncs(share, self.rng.next_u64());
        }
    }

    fn slow_down(&self, fleet: &SimCluster, at: usize) {
        let most = Duration::from_millis(self.rng.choose(&[0, 10, 500, 3_000]).copied().unwrap_or_default());
        if let Some(machine) = fleet.machines.get(at) {
            machine.host.set_blocking_delay(Delay::uniform(Duration::ZERO, most));
        }
    }

    fn fill(&mut self, fleet: &SimCluster, at: usize) {
        let Some(machine) = fleet.machines.get(at) else { return };
        let room = self.scenario.reserve as usize + (64 << 10);
        if self.rng.percent(60) {
            let is_tight = self.rng.percent(50);
            machine.host.fs().fill(self.rng.below(if is_tight { FULL_FREE_BYTES } else { room }) as u64);
            if self.rng.percent(50) {
                let most = if is_tight { FULL_TIME_MAX / 3 } else { FULL_TIME_MAX };
                self.full.push((self.world.now() + self.rng.duration(Duration::ZERO, most), at));
            }
        } else {
            machine.host.fs().set_capacity(None);
        }
    }

    /// Flips bits in a file of the store of one of the victims, or spoils a part of it: anywhere, or where it is met at the next
    /// start.
    fn damage_stored_segment(&mut self, fleet: &mut SimCluster) {
        let Some(at) = self.rng.choose(&self.scenario.faulty_stores).copied() else { return };
        let Some(machine) = fleet.machines.get(at).filter(|machine| !machine.destroyed) else { return };
        let disk = machine.host.fs();
        let store = Path::new(DIR).join("store");
        let paths: Vec<_> = disk.paths().into_iter().filter(|path| path.starts_with(&store)).collect();
        let Some(path) = self.rng.choose(&paths) else { return };
        fleet.record_damage(at, path);
        let bytes = disk.live_bytes(path).unwrap_or_default().len();
        let is_footer = self.rng.percent(50);
        let span = if is_footer { bytes.min(FOOTER_BYTES) } else { bytes };
        if self.rng.percent(50) && span > 0 {
            // More than can be rebuilt.
            let from = bytes - span + self.rng.below(span);
            let to = (from + self.rng.between(1, DAMAGED_BYTES_MAX)).min(bytes);
            disk.corrupt(path, from as u64..to as u64);
        } else {
            for _ in 0..self.rng.between(1, 3) {
                disk.flip_bit(path, ((bytes - span) * 8 + self.rng.below(span * 8)) as u64);
            }
        }
        fleet.clear_cache(at);
        if is_footer {
            self.kill(fleet, at);
        }
    }

    fn fail_reads(&mut self, fleet: &mut SimCluster, at: usize) {
        self.may_have_damaged_queue = true;
        self.ledger.forget_keys(at);
        with_machine(fleet, at, |machine| set_readable(machine, false));
        self.unreadable.push((self.world.now() + self.rng.duration(Duration::ZERO, UNREADABLE_TIME_MAX), at));
    }

    fn join(&mut self, fleet: &mut SimCluster) {
        for at in std::mem::take(&mut self.late_joiners) {
            with_machine(fleet, at, |machine| {
                machine.cannot_start = false;
                machine.start();
            });
        }
    }

    fn leave(&mut self, fleet: &mut SimCluster) {
        let Some(at) = self.leaver else { return };
        if fleet.machines.get(at).is_some_and(Machine::is_steady) {
            self.leaver = None;
            self.leaving.insert(at);
            with_machine(fleet, at, Machine::stop);
        }
    }

    /// One of the victims is gone with all that it had.
    fn destroy(&mut self, fleet: &mut SimCluster) {
        if !std::mem::take(&mut self.destroys_store) {
            return;
        }
        let Some(at) = self.rng.choose(&self.scenario.faulty_stores).copied() else { return };
        let kept = fleet.replicated_without(at);
        fleet.record_loss(at, &kept);
        with_machine(fleet, at, Machine::destroy);
        self.record_disk_loss(fleet, at, &kept);
    }

    /// The disk of one of the victims is lost with all that was on it, and an empty one comes in its place.
    fn lose_disk(&mut self, fleet: &mut SimCluster) {
        let Some(at) = self.rng.choose(&self.scenario.faulty_stores).copied().filter(|_| self.loses_disk) else {
            return;
        };
        if fleet.machines.get(at).is_none_or(|machine| machine.node().is_none()) {
            return;
        }
        self.loses_disk = false;
        let kept = fleet.replicated_without(at);
        fleet.record_loss(at, &kept);
        with_machine(fleet, at, Machine::lose_disk);
        self.record_disk_loss(fleet, at, &kept);
        self.schedule_start(at);
    }

    fn record_disk_loss(&self, fleet: &SimCluster, at: usize, kept: &BTreeSet<Id>) {
        fleet.clear_cache(at);
        if let Some(machine) = fleet.machines.get(at) {
            self.ledger.record_disk_loss(at, machine.data_losses, kept);
        }
    }

    /// Ends all that is wrong.
    pub(crate) fn end_all(&mut self, fleet: &mut SimCluster) {
        if let Some(rot) = &mut self.file_damager {
            rot.end_expired(fleet, self.world.now(), true);
        }
        self.world.network().heal_all();
        self.world.network().set_conditions(NetworkConditions::HEALTHY);
        self.join(fleet);
        self.rolling.clear();
        self.paused.clear();
        for machine in &mut fleet.machines {
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
            // What is found at a start only is found.
            self.leaving.clear();
            for machine in &mut fleet.machines {
                machine.kill();
                machine.start();
            }
        }
        // Those that were stopping come to their end, or back.
        self.down.clear();
        self.unreadable.clear();
    }
}

fn with_machine(fleet: &mut SimCluster, at: usize, what: impl FnOnce(&mut Machine)) {
    if let Some(machine) = fleet.machines.get_mut(at) {
        what(machine);
    }
}

fn set_readable(machine: &Machine, again: bool) {
    machine.host.fs().fail_reads_of("/store/", !again);
    machine.host.fs().fail_reads_of("/queue/", !again);
}

fn take_expired(list: &mut Vec<(Duration, usize)>, now: Duration) -> Vec<usize> {
    let (over, rest): (Vec<_>, Vec<_>) = std::mem::take(list).into_iter().partition(|(until, _)| *until <= now);
    *list = rest;
    over.into_iter().map(|(_, at)| at).collect()
}
