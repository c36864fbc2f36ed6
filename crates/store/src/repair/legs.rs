//! What is left to walk: spans of time, some of them not before a moment.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_record::Millis;

use super::ids::Ids;
use super::status::Hindrance;
use super::window::Window;

/// A list has no more legs than this; then neighbours become one.
const LEGS_MAX: usize = 64;

/// A span to walk over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leg {
    pub(crate) window: Window,
    /// Only these records of it.
    pub(crate) only: Option<Arc<Ids>>,
    /// The uptime from which on.
    pub(crate) ready: Duration,
    /// Whether copies are known to be missing in it.
    pub(crate) is_missing: bool,
    /// Why it was put off, if it was.
    pub(crate) why: Option<Hindrance>,
}

/// Legs to walk. Those with no ids of their own neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Legs(Vec<Leg>);

impl Leg {
    pub(crate) fn over(window: Window) -> Self {
        Self { window, only: None, ready: Duration::ZERO, is_missing: false, why: None }
    }

    /// Whether this store once was the one to see to it, and goes on until it is done: who became responsible since may have
    /// walked over it before.
    pub(crate) fn is_own(&self) -> bool {
        self.only.is_some() || self.is_missing
    }

    /// Takes in another, which it touches or not.
    fn join(&mut self, other: Self) {
        self.window.from = self.window.from.min(other.window.from);
        self.window.to = self.window.to.max(other.window.to);
        self.ready = self.ready.max(other.ready);
        self.is_missing |= other.is_missing;
        self.why = self.why.or(other.why);
        self.only = match (self.only.take(), other.only) {
            (Some(mine), Some(others)) => {
                let mut all = Arc::unwrap_or_clone(mine);
                all.join(&others);
                Some(Arc::new(all))
            }
            // All of a span has some of it in it.
            _ => None,
        };
    }

    fn touches(&self, other: &Self) -> bool {
        self.window.from <= other.window.to && other.window.from <= self.window.to
    }

    /// How far it is to another.
    fn gap(&self, other: &Self) -> u64 {
        let (one, two) = (self.window, other.window);
        one.from.0.saturating_sub(two.to.0).max(two.from.0.saturating_sub(one.to.0))
    }
}

impl Legs {
    /// All of time, once more, when a pass has come to where `front` is left: what is left of it first, then the rest.
    pub(crate) fn all_again(front: Option<Window>) -> Self {
        let Some(front) = front.filter(|front| !front.is_empty()) else { return Self(vec![Leg::over(Window::ALL)]) };
        let before = Window { from: Millis(0), to: front.from };
        let after = Window { from: front.to, to: Window::ALL.to };
        Self([front, before, after].into_iter().filter(|window| !window.is_empty()).map(Leg::over).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Leg> {
        self.0.iter()
    }

    /// The least window that has all of them; `None` when there are none.
    pub(crate) fn hull(&self) -> Option<Window> {
        let (from, to) =
            (self.0.iter().map(|leg| leg.window.from).min()?, self.0.iter().map(|leg| leg.window.to).max()?);
        Some(Window { from, to })
    }

    /// The first that may be walked now is taken out.
    pub(crate) fn take_ready(&mut self, now: Duration) -> Option<Leg> {
        let at = self.0.iter().position(|leg| leg.ready <= now)?;
        Some(self.0.remove(at))
    }

    /// Puts back what is left of a leg that was taken out: it goes on with that.
    pub(crate) fn put_back(&mut self, leg: Leg) {
        self.0.insert(0, leg);
    }

    /// Adds one behind the others, or to one that it touches.
    pub(crate) fn add(&mut self, mut leg: Leg) {
        if leg.window.is_empty() {
            return;
        }
        if leg.only.is_none() {
            let touches = |leg: &Leg, other: &Leg| other.only.is_none() && other.touches(leg);
            while let Some(at) = self.0.iter().position(|other| touches(&leg, other)) {
                leg.join(self.0.remove(at));
            }
        }
        self.0.push(leg);
        while self.0.len() > LEGS_MAX {
            self.join_nearest();
        }
    }

    /// Makes one of the newest and the leg that is nearest to it.
    fn join_nearest(&mut self) {
        let Some(last) = self.0.pop() else { return };
        match self.0.iter_mut().min_by_key(|leg| leg.gap(&last)) {
            Some(nearest) => nearest.join(last),
            None => self.0.push(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::tests::ids;
    use super::*;

    fn leg(from: u64, to: u64) -> Leg {
        Leg::over(Window { from: Millis(from), to: Millis(to) })
    }

    fn spans(legs: &Legs) -> Vec<(u64, u64)> {
        legs.iter().map(|leg| (leg.window.from.0, leg.window.to.0)).collect()
    }

    #[test]
    fn equal_and_touching_legs_are_one() {
        let mut legs = Legs::default();
        for (from, to) in [(10, 20), (10, 20), (40, 50), (50, 60), (5, 5), (15, 45)] {
            legs.add(leg(from, to));
        }
        assert_eq!(spans(&legs), [(10, 60)]);
        let some = Leg { only: Some(Arc::new(ids(&[(1, 1)]))), ..leg(10, 60) };
        legs.add(some.clone());
        legs.add(some);
        assert_eq!(legs.iter().count(), 3, "those with ids of their own stay by themselves");
    }

    #[test]
    fn their_number_is_bounded_and_nothing_is_left_out() {
        let mut legs = Legs::default();
        for at in 0..1_000 {
            legs.add(leg(at * 10, at * 10 + 5));
            legs.add(Leg { only: Some(Arc::new(ids(&[(1, at as u32)]))), ..leg(at * 10, at * 10 + 5) });
        }
        assert!(legs.iter().count() <= LEGS_MAX);
        for at in 0..1_000 {
            let covers = |leg: &Leg| {
                let of = leg.only.as_ref().is_none_or(|only| only.contains(super::super::ids::tests::id(1, at as u32)));
                of && leg.window.from.0 <= at * 10 && at * 10 + 5 <= leg.window.to.0
            };
            assert!(legs.iter().any(covers), "{at}");
        }
    }

    #[test]
    fn what_is_not_ready_waits() {
        let mut legs = Legs::default();
        let late = Leg { ready: Duration::from_secs(5), ..leg(0, 10) };
        legs.add(late.clone());
        legs.add(leg(20, 30));
        assert_eq!(legs.take_ready(Duration::ZERO), Some(leg(20, 30)));
        assert_eq!(legs.take_ready(Duration::from_secs(4)), None);
        assert_eq!(legs.take_ready(Duration::from_secs(5)), Some(late));
        assert!(legs.is_empty());
    }

    #[test]
    fn all_again_goes_on_where_it_is() {
        let end = Window::ALL.to.0;
        assert_eq!(spans(&Legs::all_again(None)), [(0, end)]);
        let at = |from, to| Some(Window { from: Millis(from), to: Millis(to) });
        assert_eq!(spans(&Legs::all_again(at(0, 50))), [(0, 50), (50, end)]);
        assert_eq!(spans(&Legs::all_again(at(20, 50))), [(20, 50), (0, 20), (50, end)]);
        assert_eq!(spans(&Legs::all_again(at(20, end))), [(20, end), (0, 20)]);
    }
}
