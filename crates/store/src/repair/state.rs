//! Where the walker stands. Pure: it is told what happened and the time, and says what is next.

use std::collections::BTreeMap;
use std::time::Duration;

use bucksaw_record::{Id, Millis};

use super::Config;
use super::legs::{Leg, Legs};
use super::look::Keeps;
use super::pace::Pace;
use super::status::{Hindrance, Status};
use super::walked::{Question, Told};
use super::watch::{Seen, Watch};
use super::window::Window;
use crate::peers::Fellow;

/// Where the walker stands.
#[derive(Debug)]
pub(crate) struct State {
    config: Config,
    copies: usize,
    watch: Watch,
    hints: Legs,
    pass: Option<Pass>,
    /// When the next pass begins.
    next: Duration,
    /// Whether that is one that holds blocks against their checksums.
    next_verifies: bool,
    /// What a pass that holds blocks against their checksums had not come to when another one took its place.
    unverified: Option<Window>,
    /// What other stores keep, as they told last.
    keeps: BTreeMap<Id, Keeps>,
    /// Records that could not be copied anywhere in the last pass.
    missing: u64,
    walked: Option<Millis>,
    /// Which start of the store this is.
    boot: u64,
    /// Passes that were begun, and are to be begun.
    begun: u64,
    wanted: u64,
    /// The last pass after which nothing had too few copies.
    clean: u64,
}

/// A pass under way.
#[derive(Debug)]
struct Pass {
    number: u64,
    began: Millis,
    legs: Legs,
    /// The time whose blocks are held against their checksums.
    verify: Option<Window>,
    missing: u64,
    /// What stores had that were forgotten or emptied, and that it is about.
    gone_bytes: u64,
    /// How fast it gets on; none before that was first looked at.
    pace: Option<Pace>,
}

/// What is to be walked next.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) leg: Leg,
    /// The stores to ask.
    pub(crate) live: Vec<Fellow>,
    pub(crate) verify: bool,
    is_hint: bool,
}

/// What came of a window.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// What is left of the leg.
    pub(crate) rest: Option<Leg>,
    /// What is to be looked at again.
    pub(crate) later: Vec<Leg>,
    /// Records that too few stores hold, and no other can take.
    pub(crate) missing: u64,
}

impl State {
    /// `chance` is any number: passes of different stores should not coincide.
    pub(crate) fn new(config: Config, copies: usize, now: Duration, chance: u64) -> Self {
        let part = f64::from(chance as u32) / f64::from(u32::MAX);
        Self {
            config,
            copies,
            watch: Watch::default(),
            hints: Legs::default(),
            pass: None,
            // All others that are there have been heard of by then, and who is not is lost.
            next: now + config.lost_after + config.lost_after.mul_f64(part),
            next_verifies: false,
            unverified: None,
            keeps: BTreeMap::new(),
            missing: 0,
            walked: None,
            // Never 0.
            boot: chance | 1,
            begun: 0,
            wanted: 0,
            clean: 0,
        }
    }

    /// What is to be done now, as things are; `None` when nothing is.
    pub(crate) fn next(&mut self, fellows: Vec<Fellow>, now: Duration, wall: Millis) -> Option<Task> {
        let Seen { live, is_awaiting, was_loss, was_gain, gone_bytes, .. } =
            self.watch.look(fellows, now, self.config.lost_after);
        let gains = was_gain && (self.missing > 0 || self.pass.as_ref().is_some_and(|pass| pass.missing > 0));
        if was_loss || gains || self.wanted > self.begun {
            // What it goes without is made up for when this is done: reading all bytes takes hours, and copies are missing.
            let left = self.pass.as_ref().filter(|pass| pass.verify.is_some()).and_then(|pass| pass.legs.hull());
            self.unverified = left.or(self.unverified);
            self.begin(wall, None, gone_bytes);
        } else if self.pass.is_none() && now >= self.next {
            self.unverified = None;
            self.begin(wall, self.next_verifies.then_some(Window::ALL), 0);
        } else if self.pass.is_none() && self.unverified.is_some() {
            let unverified = self.unverified.take();
            self.begin(wall, unverified, 0);
        }
        if is_awaiting {
            return None;
        }
        if let Some(leg) = self.hints.take_ready(now) {
            return Some(Task { leg, live, verify: false, is_hint: true });
        }
        let pass = self.pass.as_mut()?;
        let leg = pass.legs.take_ready(now)?;
        let verify = pass.verify.is_some_and(|part| part.from < leg.window.to && leg.window.from < part.to);
        Some(Task { leg, live, verify, is_hint: false })
    }

    /// Begins a pass, or begins anew with what the one under way has already walked over.
    fn begin(&mut self, wall: Millis, verify: Option<Window>, gone_bytes: u64) {
        let front = self.pass.as_ref().and_then(|pass| Some(pass.legs.iter().next()?.window)).or(verify);
        let gone_bytes = gone_bytes + self.pass.as_ref().map_or(0, |pass| pass.gone_bytes);
        let legs = Legs::all_again(front);
        self.begun += 1;
        self.pass = Some(Pass { number: self.begun, began: wall, legs, verify, missing: 0, gone_bytes, pace: None });
    }

    /// Takes in what came of a task. Says whether a pass came to its end by it.
    pub(crate) fn done(&mut self, is_hint: bool, done: Done, now: Duration, chance: u64) -> bool {
        let Done { rest, later, missing } = done;
        let again = self.config.again;
        let legs = match &mut self.pass {
            Some(pass) if !is_hint => &mut pass.legs,
            _ => &mut self.hints,
        };
        if let Some(rest) = rest {
            legs.put_back(rest);
        }
        for leg in later {
            // Some say themselves when.
            legs.add(Leg { ready: leg.ready.max(now + again), ..leg });
        }
        let Some(pass) = self.pass.as_mut().filter(|_| !is_hint) else { return false };
        pass.missing += missing;
        if !pass.legs.is_empty() {
            return false;
        }
        if self.watch.make_good(self.copies) {
            self.walked = Some(pass.began);
            if pass.missing == 0 {
                self.clean = pass.number;
            }
        }
        if pass.missing == 0 {
            self.watch.walked();
        }
        self.missing = pass.missing;
        self.pass = None;
        // The first of those that check checksums comes some time within a period, or a node that is often started anew
        // would never do it.
        let part = if self.next_verifies { 1.0 } else { f64::from(chance as u32) / f64::from(u32::MAX) };
        self.next = now + self.config.period.mul_f64(part);
        self.next_verifies = true;
        true
    }

    /// Answers a store that waits for a pass. At most one more is begun for each that was: who asks knows how many were.
    pub(crate) fn asked(&mut self, question: Question) -> Told {
        if question.boot == self.boot && question.begin == self.begun + 1 {
            self.wanted = question.begin;
        }
        Told { boot: self.boot, begun: self.begun, clean: self.clean, ..Told::default() }
    }

    pub(crate) fn hint(&mut self, window: Window) {
        self.hints.add(Leg::over(window));
    }

    /// What all stores keep, this one among them.
    pub(crate) fn keeps(&self, own: Keeps, live: &[Fellow]) -> Keeps {
        let others = live.iter().filter_map(|fellow| self.keeps.get(&fellow.peer.node));
        others.fold(own, |all, keeps| all.and(*keeps))
    }

    /// Takes note of what a store keeps.
    pub(crate) fn told(&mut self, node: Id, keeps: Keeps) {
        self.keeps.insert(node, keeps);
    }

    /// When the last pass that came to its end began.
    pub(crate) fn walked(&self) -> Option<Millis> {
        self.walked
    }

    /// The marks of stores that are lost and were made good.
    pub(crate) fn made_good(&self) -> Vec<u64> {
        self.watch.made_good()
    }

    /// The spans that the pass under way has not come to yet.
    pub(crate) fn left(&self) -> Vec<Window> {
        // Of what was put off with ids of its own, little is left.
        let legs = self.pass.iter().flat_map(|pass| pass.legs.iter()).filter(|leg| leg.only.is_none());
        legs.map(|leg| leg.window).collect()
    }

    /// Takes note of how much is left of the pass under way.
    pub(crate) fn note(&mut self, now: Duration, left_bytes: u64) {
        if let Some(pass) = &mut self.pass {
            pass.pace.get_or_insert_with(|| Pace::new(now, left_bytes)).note(now, left_bytes);
        }
    }

    /// How it is getting on, when so much is left of the pass under way.
    pub(crate) fn status(&self, now: Duration, left_bytes: u64) -> Status {
        let legs = || self.pass.iter().flat_map(|pass| pass.legs.iter()).chain(self.hints.iter());
        let known = legs().filter(|leg| leg.is_missing).filter_map(|leg| leg.only.as_ref()).map(|only| only.len());
        let missing = self.pass.as_ref().map_or(0, |pass| pass.missing).max(self.missing);
        let front = self.pass.as_ref().and_then(|pass| pass.legs.iter().next());
        let missing = missing + known.sum::<u64>();
        let awaited = self.watch.awaited();
        let waits = || awaited.first().filter(|_| self.pass.is_some()).map(|store| Hindrance::Awaited(*store));
        let few = || (missing > 0).then_some(Hindrance::TooFewStores);
        let pace = self.pass.as_ref().and_then(|pass| pass.pace);
        Status {
            began: self.pass.as_ref().map(|pass| pass.began),
            at: front.map(|leg| Millis(leg.window.to.0.min(Millis::MAX.0))),
            walked: self.walked,
            left_bytes: if self.pass.is_some() { left_bytes } else { 0 },
            bytes_per_second: pace.map_or(0, |pace| pace.bytes_per_second(now, left_bytes)),
            missing,
            put_off: legs().filter(|leg| leg.ready > Duration::ZERO).count(),
            hindrance: waits().or_else(|| legs().find_map(|leg| leg.why)).or_else(few),
            lost: self.watch.lost(),
            open: self.watch.open(),
            gone_bytes: self.watch.gone_bytes() + self.pass.as_ref().map_or(0, |pass| pass.gone_bytes),
            awaited,
            ..Status::default()
        }
    }
}

impl Task {
    pub(crate) fn is_hint(&self) -> bool {
        self.is_hint
    }
}

#[cfg(test)]
mod tests;
