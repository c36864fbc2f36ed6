//! What goes wrong, one thing after the other.

use std::time::Duration;

use bucksaw_doors::sim::{Delay, Loss, World};

use crate::chance::Chance;
use crate::fleet::Fleet;
use crate::ledger::Ledger;

/// How long a machine is down, mostly.
const DOWN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(20));

/// Makes trouble, and ends it again.
pub(crate) struct Trouble<'a> {
    pub(crate) world: &'a World,
    pub(crate) chance: &'a Chance,
    pub(crate) ledger: &'a Ledger,
    /// Machines to be started again, and when.
    down: Vec<(Duration, usize)>,
    /// Machines to be let go on, and when.
    paused: Vec<(Duration, usize)>,
}

impl<'a> Trouble<'a> {
    pub(crate) fn new(world: &'a World, chance: &'a Chance, ledger: &'a Ledger) -> Self {
        Self { world, chance, ledger, down: Vec::new(), paused: Vec::new() }
    }

    /// Ends what is over.
    pub(crate) fn pass(&mut self, fleet: &mut Fleet) {
        let now = self.world.now();
        let over = |list: &mut Vec<(Duration, usize)>| -> Vec<usize> {
            let (over, rest) = std::mem::take(list).into_iter().partition(|(until, _)| *until <= now);
            *list = rest;
            let over: Vec<(Duration, usize)> = over;
            over.into_iter().map(|(_, at)| at).collect()
        };
        for at in over(&mut self.paused) {
            if let Some(machine) = fleet.machines.get(at) {
                machine.host.resume();
            }
        }
        for at in over(&mut self.down) {
            let Some(machine) = fleet.machines.get_mut(at) else { continue };
            machine.start();
            if machine.node().is_none() {
                self.down.push((now + Duration::from_secs(1), at));
            }
        }
    }

    /// Lets one thing go wrong, or come right.
    pub(crate) fn strike(&mut self, fleet: &mut Fleet) {
        let at = self.chance.below(fleet.machines.len());
        let (now, chance) = (self.world.now(), self.chance);
        let kept = fleet.kept();
        let hosts: Vec<_> = fleet.machines.iter().map(|machine| machine.host.clone()).collect();
        let Some(machine) = fleet.machines.get_mut(at) else { return };
        let is_up = machine.node().is_some();
        match chance.below(11) {
            0 | 1 if is_up => {
                machine.die(bucksaw_doors::sim::Node::kill);
                self.down.push((now + chance.time(DOWN.0, DOWN.1), at));
            }
            2 | 3 if is_up => {
                let how = chance.one(&[Loss::All, Loss::None, Loss::Torn]).copied().unwrap_or(Loss::All);
                machine.die(|host| host.cut_power(how));
                self.ledger.power_was_cut(at, &kept);
                self.down.push((now + chance.time(DOWN.0, DOWN.1), at));
            }
            4 if is_up => {
                machine.host.pause();
                self.paused.push((now + chance.time(Duration::from_millis(10), Duration::from_secs(40)), at));
            }
            5 => {
                let (some, others): (Vec<_>, Vec<_>) = hosts.iter().partition(|_| chance.percent(50));
                if chance.percent(50) {
                    self.world.network().part(&some, &others);
                } else {
                    self.world.network().cut(&some, &others);
                }
            }
            6 => self.world.network().heal_all(),
            7 => machine.host.jump_clock(chance.within(0, 7_200_000) as i64 - 3_600_000),
            8 => {
                let share = if chance.percent(50) { 0.0 } else { chance.below(100) as f64 / 100.0 };
                machine.host.fs().fail_some_syncs(share, chance.any());
            }
            9 => {
                let most = Duration::from_millis([0, 10, 500][chance.below(3)]);
                machine.host.set_work(Delay::between(Duration::ZERO, most));
            }
            _ => {
                // Full, and never so long that queues hold up everything.
                let disk = machine.host.fs();
                if chance.percent(50) { disk.fill(chance.below(64 << 10) as u64) } else { disk.set_capacity(None) }
            }
        }
    }

    /// Ends all that is wrong.
    pub(crate) fn end(&mut self, fleet: &mut Fleet) {
        self.world.network().heal_all();
        self.world.network().set_weather(bucksaw_doors::sim::Weather::CALM);
        for machine in &mut fleet.machines {
            machine.host.resume();
            machine.host.set_work(Delay::between(Duration::ZERO, Duration::ZERO));
            let disk = machine.host.fs();
            disk.set_capacity(None);
            disk.fail_some_syncs(0.0, 0);
            machine.start();
        }
        self.down.clear();
        self.paused.clear();
    }
}
