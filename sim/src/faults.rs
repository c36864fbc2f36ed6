//! What goes wrong, one thing after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use bucksaw_doors::sim::{Delay, Loss, Node, Weather, World};
use bucksaw_record::Id;

use crate::chance::Chance;
use crate::fleet::Fleet;
use crate::ledger::Ledger;
use crate::machine::{DIR, Machine, Stopped};
use crate::rot::{Rot, Struck};
use crate::scenario::Scenario;

/// Kinds of faults; what happens often has several numbers.
pub(crate) const FAULTS: usize = 27;

/// The number of the fault that destroys a store.
pub(crate) const DESTROY: usize = 22;

/// The number of the fault that loses the disk of a store.
pub(crate) const EMPTY: usize = 25;

/// The numbers of the faults that kill processes, and of those that cut power.
pub(crate) const KILLS: [usize; 2] = [0, 1];
pub(crate) const POWER: [usize; 3] = [2, 3, 18];

/// The power goes while something is being written to a queue, if that happens within so much time.
const TEAR: Duration = Duration::from_secs(2);

/// How long a machine is down, mostly.
const DOWN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(20));

/// How long a machine stands still.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(40));

/// How long the way between machines is clogged.
const CLOG: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(15));

/// How far a wall clock is off at most. No farther than the retention, for what is older goes, and rightly.
const CLOCK_MS_MAX: i64 = 3 * 24 * 3_600_000;

/// From here on a node may take the time in a key for none.
const CLOCK_MS_FAR: i64 = 600_000;

/// How long reads fail at most.
const UNREADABLE: Duration = Duration::from_secs(10);

/// How long a disk is full that is so for a moment, and room on it that a few frames take.
const FULL: Duration = Duration::from_secs(3);
const FULL_BYTES: usize = 2_000;

/// The end of a file of the shelf, where its footer is.
const FOOTER_BYTES: usize = 200;

/// The most that is spoilt at once, in bytes: more than a sector, so that it cannot always be rebuilt.
const SPOILT_BYTES: usize = 6_000;

/// Makes trouble, and ends it again.
pub(crate) struct Trouble<'a> {
    world: &'a World,
    chance: &'a Chance,
    ledger: &'a Ledger,
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
    clocks: BTreeMap<usize, i64>,
    /// Machines whose disks have room again, and when.
    full: Vec<(Duration, usize)>,
    /// The machine with which something went wrong last.
    last: usize,
    destroys: bool,
    empties: bool,
    /// Something was done that may damage files of queues.
    has_spoilt: bool,
    leaves: Option<usize>,
    late: Vec<usize>,
    rot: Option<Rot>,
}

impl<'a> Trouble<'a> {
    pub(crate) fn new(world: &'a World, chance: &'a Chance, ledger: &'a Ledger, scenario: &'a Scenario) -> Self {
        Self {
            world,
            chance,
            ledger,
            scenario,
            down: Vec::new(),
            paused: Vec::new(),
            unreadable: Vec::new(),
            rolling: Vec::new(),
            leaving: BTreeSet::new(),
            clocks: BTreeMap::new(),
            full: Vec::new(),
            last: 0,
            destroys: scenario.destroys,
            empties: scenario.empties,
            has_spoilt: false,
            leaves: scenario.leaver,
            late: scenario.late.clone(),
            rot: scenario.rots.map(Rot::new),
        }
    }

    /// Files that went bad outside of shelves.
    pub(crate) fn rotten(&self) -> usize {
        self.rot.as_ref().map_or(0, |rot| rot.files)
    }

    /// Whether something was done that may damage files of queues: what was not synced is lost in part, or cannot be read.
    pub(crate) fn has_spoilt(&self) -> bool {
        self.has_spoilt
    }

    /// Ends what is over.
    pub(crate) fn pass(&mut self, fleet: &mut Fleet) {
        let now = self.world.now();
        if let Some(rot) = &mut self.rot {
            rot.pass(fleet, now, false);
        }
        for at in over(&mut self.paused, now) {
            on(fleet, at, |machine| machine.host.resume());
        }
        for at in over(&mut self.unreadable, now) {
            self.ledger.forgets_keys(at);
            on(fleet, at, |machine| readable(machine, true));
        }
        for at in over(&mut self.full, now) {
            on(fleet, at, |machine| machine.host.fs().set_capacity(None));
        }
        for at in over(&mut self.down, now) {
            on(fleet, at, Machine::start);
            if fleet.machines.get(at).is_some_and(|machine| machine.node().is_none() && !machine.away) {
                self.down.push((now + Duration::from_secs(1), at));
            }
        }
        for at in 0..fleet.machines.len() {
            self.pass_stopped(fleet, at, now);
        }
        if let Some(at) = self.rolling.last().copied() {
            let all_up = fleet.machines.iter().all(|machine| machine.away || machine.is_steady());
            if all_up {
                self.rolling.pop();
                on(fleet, at, |machine| machine.stop(false));
            }
        }
    }

    /// Starts a machine again whose node has stopped in good order, or lets it go that leaves.
    fn pass_stopped(&mut self, fleet: &mut Fleet, at: usize, now: Duration) {
        let Some(machine) = fleet.machines.get_mut(at) else { return };
        // What was set aside would be lost with the disk.
        let is_aside = machine.node().is_some_and(|node| !node.queue.damaged().is_empty());
        let Some(stopped) = machine.has_stopped() else { return };
        if self.leaving.remove(&at) && !is_aside && stopped != Stopped::LeftOver {
            // Nothing that it took in is lost with its disk.
            self.ledger.damage_is_gone(at);
            machine.retire(stopped == Stopped::Empty);
            return;
        }
        self.down.push((now + self.chance.time(Duration::from_millis(100), Duration::from_secs(3)), at));
    }

    /// Lets one thing go wrong, or come right.
    pub(crate) fn strike(&mut self, fleet: &mut Fleet) {
        // What goes wrong twice with one machine goes wrong in more ways.
        if self.chance.percent(70) {
            self.last = self.chance.below(fleet.machines.len());
        }
        let at = self.last;
        let Some(fault) = self.chance.one(&self.scenario.faults) else { return };
        tracing::debug!(fault, machine = at, "something goes wrong");
        match *fault {
            0 | 1 => self.strike_kill(fleet, at),
            2 | 3 => self.cut_power(fleet, at),
            4 | 5 => self.pause(fleet, at),
            6 | 7 => self.part(fleet),
            8 | 9 => self.world.network().heal_all(),
            10 => self.clog(fleet),
            11 => self.jump_clock(fleet, at),
            12 | 13 => self.fail_syncs(fleet, at),
            14 => self.slow_down(fleet, at),
            15 | 16 => self.fill(fleet, at),
            17 => self.flip_bits(fleet),
            18 => (0..fleet.machines.len()).for_each(|at| self.cut_power(fleet, at)),
            19 => self.rolling = (0..fleet.machines.len()).collect(),
            20 => on(fleet, at, |machine| machine.stop(false)),
            21 => self.leave(fleet),
            DESTROY | 23 => self.destroy(fleet),
            EMPTY | 26 => self.lose_disk(fleet),
            _ => self.fail_reads(fleet, at),
        }
        if self.chance.percent(20) {
            self.join(fleet);
        }
        self.rot(fleet);
    }

    /// Damages a file, or exhausts descriptors.
    fn rot(&mut self, fleet: &mut Fleet) {
        let Some(rot) = &mut self.rot else { return };
        match rot.strike(fleet, self.ledger, self.world.now()) {
            None => return,
            Some(Struck::Damaged(at)) => {
                if rot.kills() {
                    self.strike_kill(fleet, at);
                }
            }
            // A start that cannot read a queue segment knows none of its keys.
            Some(Struck::Short(at)) => self.ledger.forgets_keys(at),
        }
        self.has_spoilt = true;
    }

    fn strike_kill(&mut self, fleet: &mut Fleet, at: usize) {
        let Some(machine) = fleet.machines.get_mut(at).filter(|machine| machine.node().is_some()) else { return };
        machine.kill();
        self.will_start(at);
    }

    fn cut_power(&mut self, fleet: &mut Fleet, at: usize) {
        if fleet.machines.get(at).is_none_or(|machine| machine.node().is_none()) {
            return;
        }
        let how = self.chance.one(&[Loss::All, Loss::None, Loss::Torn]).copied().unwrap_or(Loss::All);
        if how == Loss::Torn {
            // Nearly always everything is synced: without this hardly any frame would be torn behind others that must stay.
            let disk = fleet.machines.get(at).map(|machine| machine.host.fs());
            self.world.run_until(|| disk.as_ref().is_none_or(|disk| disk.is_half_synced("/queue/")), TEAR);
        }
        let kept = fleet.kept_without(at);
        let Some(machine) = fleet.machines.get_mut(at) else { return };
        self.has_spoilt = true;
        machine.cut_power(how);
        self.ledger.power_was_cut(at, machine.cuts, &kept);
        self.will_start(at);
    }

    fn will_start(&mut self, at: usize) {
        self.leaving.remove(&at);
        self.down.push((self.world.now() + self.chance.time(DOWN.0, DOWN.1), at));
    }

    fn pause(&mut self, fleet: &mut Fleet, at: usize) {
        let Some(machine) = fleet.machines.get(at).filter(|machine| machine.node().is_some()) else { return };
        machine.host.pause();
        self.paused.push((self.world.now() + self.chance.time(PAUSE.0, PAUSE.1), at));
    }

    fn part(&self, fleet: &Fleet) {
        let hosts = fleet.hosts();
        let (some, others) = self.halves(&hosts);
        if self.chance.percent(50) {
            self.world.network().part(&some, &others);
        } else {
            self.world.network().cut(&some, &others);
        }
    }

    fn clog(&self, fleet: &Fleet) {
        let hosts = fleet.hosts();
        let (some, others) = self.halves(&hosts);
        self.world.network().clog(&some, &others, self.chance.time(CLOG.0, CLOG.1));
    }

    fn halves<'h>(&self, hosts: &'h [Node]) -> (Vec<&'h Node>, Vec<&'h Node>) {
        hosts.iter().partition(|_| self.chance.percent(50))
    }

    fn jump_clock(&mut self, fleet: &Fleet, at: usize) {
        let most = if self.chance.percent(50) { 60_000 } else { CLOCK_MS_MAX };
        let off = self.clocks.entry(at).or_default();
        let new = self.chance.within(0, 2 * most as usize) as i64 - most;
        if let Some(machine) = fleet.machines.get(at) {
            machine.host.jump_clock(new - *off);
            *off = new;
            if new.abs() > CLOCK_MS_FAR {
                self.ledger.clock_jumped_far(at);
            }
        }
    }

    fn fail_syncs(&self, fleet: &Fleet, at: usize) {
        let some = self.chance.below(100) as f64 / 100.0;
        let share = self.chance.one(&[0.0, some, some, 1.0]).copied().unwrap_or_default();
        if let Some(machine) = fleet.machines.get(at) {
            machine.host.fs().fail_some_syncs(share, self.chance.any());
        }
    }

    fn slow_down(&self, fleet: &Fleet, at: usize) {
        let most = Duration::from_millis(self.chance.one(&[0, 10, 500, 3_000]).copied().unwrap_or_default());
        if let Some(machine) = fleet.machines.get(at) {
            machine.host.set_work(Delay::between(Duration::ZERO, most));
        }
    }

    fn fill(&mut self, fleet: &Fleet, at: usize) {
        let Some(machine) = fleet.machines.get(at) else { return };
        let room = self.scenario.reserve as usize + (64 << 10);
        if self.chance.percent(60) {
            let is_tight = self.chance.percent(50);
            machine.host.fs().fill(self.chance.below(if is_tight { FULL_BYTES } else { room }) as u64);
            if self.chance.percent(50) {
                let most = if is_tight { FULL / 3 } else { FULL };
                self.full.push((self.world.now() + self.chance.time(Duration::ZERO, most), at));
            }
        } else {
            machine.host.fs().set_capacity(None);
        }
    }

    /// Flips bits in a file of the shelf of one of the victims, or spoils a part of it: anywhere, or where it is met at the next
    /// start.
    fn flip_bits(&mut self, fleet: &mut Fleet) {
        let Some(at) = self.chance.one(&self.scenario.victims).copied() else { return };
        let Some(machine) = fleet.machines.get(at).filter(|machine| !machine.destroyed) else { return };
        let disk = machine.host.fs();
        let shelf = Path::new(DIR).join("shelf");
        let paths: Vec<_> = disk.paths().into_iter().filter(|path| path.starts_with(&shelf)).collect();
        let Some(path) = self.chance.one(&paths) else { return };
        fleet.note_spoilt(at, path);
        let bytes = disk.live_bytes(path).unwrap_or_default().len();
        let is_footer = self.chance.percent(50);
        let span = if is_footer { bytes.min(FOOTER_BYTES) } else { bytes };
        if self.chance.percent(50) && span > 0 {
            // More than can be rebuilt.
            let from = bytes - span + self.chance.below(span);
            let to = (from + self.chance.within(1, SPOILT_BYTES)).min(bytes);
            disk.spoil(path, from as u64..to as u64);
        } else {
            for _ in 0..self.chance.within(1, 3) {
                disk.flip_bit(path, ((bytes - span) * 8 + self.chance.below(span * 8)) as u64);
            }
        }
        fleet.was_changed(at);
        if is_footer {
            self.strike_kill(fleet, at);
        }
    }

    fn fail_reads(&mut self, fleet: &mut Fleet, at: usize) {
        self.has_spoilt = true;
        self.ledger.forgets_keys(at);
        on(fleet, at, |machine| readable(machine, false));
        self.unreadable.push((self.world.now() + self.chance.time(Duration::ZERO, UNREADABLE), at));
    }

    fn join(&mut self, fleet: &mut Fleet) {
        for at in std::mem::take(&mut self.late) {
            on(fleet, at, |machine| {
                machine.away = false;
                machine.start();
            });
        }
    }

    fn leave(&mut self, fleet: &mut Fleet) {
        let Some(at) = self.leaves else { return };
        if fleet.machines.get(at).is_some_and(Machine::is_steady) {
            self.leaves = None;
            self.leaving.insert(at);
            on(fleet, at, |machine| machine.stop(true));
        }
    }

    /// One of the victims is gone with all that it had.
    fn destroy(&mut self, fleet: &mut Fleet) {
        if !std::mem::take(&mut self.destroys) {
            return;
        }
        let Some(at) = self.chance.one(&self.scenario.victims).copied() else { return };
        let kept = fleet.kept_without(at);
        fleet.note_loss(at, &kept);
        on(fleet, at, Machine::destroy);
        self.note_loss(fleet, at, &kept);
    }

    /// The disk of one of the victims is lost with all that was on it, and an empty one comes in its place.
    fn lose_disk(&mut self, fleet: &mut Fleet) {
        let Some(at) = self.chance.one(&self.scenario.victims).copied().filter(|_| self.empties) else { return };
        if fleet.machines.get(at).is_none_or(|machine| machine.node().is_none()) {
            return;
        }
        self.empties = false;
        let kept = fleet.kept_without(at);
        fleet.note_loss(at, &kept);
        on(fleet, at, Machine::lose_disk);
        self.note_loss(fleet, at, &kept);
        self.will_start(at);
    }

    fn note_loss(&self, fleet: &Fleet, at: usize, kept: &BTreeSet<Id>) {
        fleet.was_changed(at);
        if let Some(machine) = fleet.machines.get(at) {
            self.ledger.was_destroyed(at, machine.cuts, kept);
        }
    }

    /// Ends all that is wrong.
    pub(crate) fn end(&mut self, fleet: &mut Fleet) {
        if let Some(rot) = &mut self.rot {
            rot.pass(fleet, self.world.now(), true);
        }
        self.world.network().heal_all();
        self.world.network().set_weather(Weather::CALM);
        self.join(fleet);
        self.rolling.clear();
        self.paused.clear();
        for machine in &mut fleet.machines {
            machine.host.resume();
            machine.host.set_work(Delay::between(Duration::ZERO, Duration::from_millis(1)));
            machine.host.fs().set_capacity(None);
            machine.host.fs().fail_some_syncs(0.0, 0);
            readable(machine, true);
            if machine.is_steady() || machine.node().is_none() {
                machine.start();
            }
        }
        if self.chance.percent(30) {
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

fn on(fleet: &mut Fleet, at: usize, what: impl FnOnce(&mut Machine)) {
    if let Some(machine) = fleet.machines.get_mut(at) {
        what(machine);
    }
}

fn readable(machine: &Machine, again: bool) {
    machine.host.fs().fail_reads_of("/shelf/", !again);
    machine.host.fs().fail_reads_of("/queue/", !again);
}

fn over(list: &mut Vec<(Duration, usize)>, now: Duration) -> Vec<usize> {
    let (over, rest): (Vec<_>, Vec<_>) = std::mem::take(list).into_iter().partition(|(until, _)| *until <= now);
    *list = rest;
    over.into_iter().map(|(_, at)| at).collect()
}
