//! Which stores are there, which may come back, and which are lost: by what is gossiped of them, and by this node's own
//! uptime, which no clock that is set can move.

use std::collections::BTreeMap;
use std::time::Duration;

use bucksaw_record::Id;

use crate::peers::Fellow;

/// What is remembered of a store.
#[derive(Clone, Copy, Debug)]
struct Known {
    incarnation: Id,
    /// What it has told.
    mark: u64,
    held_bytes: u64,
    /// Whether it takes copies.
    takes: bool,
    /// What it told last that it holds, be it now or before.
    told_bytes: u64,
    /// Since when it has not been there.
    gone_since: Option<Duration>,
    /// It has been gone for long enough.
    is_lost: bool,
    /// A whole pass has gone over all records since.
    made_good: bool,
    /// One after which nothing was missing, whatever others were lost with it.
    is_walked: bool,
    /// It was started anew: when it is to be seen whether it has what it had, and how much that was.
    check: Option<(Duration, u64)>,
}

impl Known {
    /// Whether it is lost, and what it had was not copied by others since.
    fn is_open(&self) -> bool {
        self.is_lost && !self.made_good
    }
}

/// The other stores at a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) live: Vec<Fellow>,
    /// Some are gone and may come back: nothing can be said of what they hold.
    pub(crate) is_awaiting: bool,
    /// Copies may be missing that were not before.
    pub(crate) was_loss: bool,
    /// There is one more to take copies.
    pub(crate) was_gain: bool,
    /// One came back with much less than it had.
    was_shrunk: bool,
    /// Bytes that are gone with stores of which nothing will be known any more.
    pub(crate) gone_bytes: u64,
}

/// Watches the stores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(BTreeMap<Id, Known>);

impl Watch {
    /// Looks at all other stores as they are now.
    pub(crate) fn look(&mut self, fellows: Vec<Fellow>, now: Duration, lost_after: Duration) -> Seen {
        let mut seen = Seen::default();
        for fellow in &fellows {
            self.meet(fellow, now, lost_after, &mut seen);
        }
        if seen.was_shrunk {
            seen.was_loss = true;
            // What was kept there may have been the copy that another store was made good by.
            self.0.values_mut().for_each(|known| known.is_walked = false);
        }
        let is_there = |node: &Id| fellows.iter().any(|fellow| fellow.peer.node == *node);
        self.0.retain(|node, known| {
            if is_there(node) {
                return true;
            }
            // It was forgotten.
            known.gone_since.get_or_insert(now);
            // When it was lost along with others, they may be few enough now to be made good.
            if known.is_open() {
                seen.was_loss = true;
                seen.gone_bytes += known.told_bytes;
            }
            !known.is_lost
        });
        for (node, known) in &mut self.0 {
            let Some(since) = known.gone_since else { continue };
            let is_replaced = fellows.iter().any(|fellow| fellow.peer.node == *node && fellow.is_replaced);
            // A replaced disk does not come back, so nothing is gained by waiting for a restart.
            if !known.is_lost && (is_replaced || now.saturating_sub(since) >= lost_after) {
                known.is_lost = true;
                seen.was_loss = true;
            }
            seen.is_awaiting |= !known.is_lost;
        }
        seen.live = fellows.into_iter().filter(|fellow| fellow.is_live).collect();
        seen
    }

    fn meet(&mut self, fellow: &Fellow, now: Duration, lost_after: Duration, seen: &mut Seen) {
        let is_new = !self.0.contains_key(&fellow.peer.node);
        let known = self.0.entry(fellow.peer.node).or_insert(Known {
            incarnation: fellow.incarnation,
            mark: fellow.mark,
            held_bytes: 0,
            takes: fellow.takes,
            told_bytes: 0,
            gone_since: None,
            is_lost: false,
            made_good: false,
            is_walked: false,
            check: None,
        });
        let is_news = std::mem::replace(&mut known.mark, fellow.mark) != fellow.mark;
        if !fellow.is_live {
            known.told_bytes = fellow.peer.held_bytes;
            known.gone_since.get_or_insert(now);
            if is_news {
                // Somebody has heard of it since: it may have been back there, and have kept records.
                seen.was_loss |= known.is_lost;
                known.is_walked = false;
            }
            return;
        }
        seen.was_gain |= is_new || known.is_lost || (fellow.takes && !known.takes);
        (known.gone_since, known.is_lost, known.made_good, known.is_walked) = (None, false, false, false);
        known.takes = fellow.takes;
        if known.incarnation != fellow.incarnation {
            known.incarnation = fellow.incarnation;
            // Facts that do not count the shelf yet are waited for, with an upper bound.
            known.check.get_or_insert((now + lost_after, known.held_bytes));
        }
        match known.check {
            Some((due, before)) if fellow.has_counted || now >= due => {
                // Others may have filled it again by now.
                let opened_bytes = fellow.opened_bytes.unwrap_or(u64::MAX).min(fellow.peer.held_bytes);
                if opened_bytes < before / 2 {
                    seen.was_shrunk = true;
                    seen.gone_bytes += before - opened_bytes;
                }
                known.check = None;
                known.held_bytes = fellow.peer.held_bytes;
            }
            Some(_) => {}
            None => known.held_bytes = fellow.peer.held_bytes,
        }
        known.told_bytes = known.held_bytes;
    }

    /// Those that are lost.
    pub(crate) fn lost(&self) -> Vec<Id> {
        self.0.iter().filter(|(_, known)| known.is_lost).map(|(node, _)| *node).collect()
    }

    /// A pass has ended in which all that are lost now held nothing, and nothing was missing copies after it.
    pub(crate) fn walked(&mut self) {
        self.0.values_mut().filter(|known| known.is_lost).for_each(|known| known.is_walked = true);
    }

    /// The marks of those that need not come back for anything that this store holds, by their ids.
    pub(crate) fn made_good(&self) -> Vec<u64> {
        self.0.values().filter(|known| known.is_lost && known.is_walked).map(|known| known.mark).collect()
    }

    /// Those that are gone and may come back.
    pub(crate) fn awaited(&self) -> Vec<Id> {
        let awaited = self.0.iter().filter(|(_, known)| known.gone_since.is_some() && !known.is_lost);
        awaited.map(|(node, _)| *node).collect()
    }

    /// Those that are lost, and not made good.
    pub(crate) fn open(&self) -> Vec<Id> {
        self.0.iter().filter(|(_, known)| known.is_open()).map(|(node, _)| *node).collect()
    }

    /// What those had that are awaited or open.
    pub(crate) fn gone_bytes(&self) -> u64 {
        let gone = self.0.values().filter(|known| known.gone_since.is_some() && !known.made_good);
        gone.map(|known| known.told_bytes).sum()
    }

    /// A pass has ended in which all that are lost now held nothing. Says whether that made them good: not when as many were
    /// lost at once as keep a record.
    pub(crate) fn make_good(&mut self, copies: usize) -> bool {
        let newly = self.0.values_mut().filter(|known| known.is_open());
        let newly: Vec<&mut Known> = newly.collect();
        if newly.len() >= copies {
            return false;
        }
        newly.into_iter().for_each(|known| known.made_good = true);
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use bucksaw_record::{Millis, Producer};

    use super::*;
    use crate::Peer;

    const LOST_AFTER: Duration = Duration::from_secs(60);

    fn node(number: u64) -> Id {
        Id::new(Millis(1), Producer::new(number), 0)
    }

    /// Another store, of 1,000 bytes.
    pub(in crate::repair) fn fellow(number: u64, is_live: bool) -> Fellow {
        let address = "10.0.0.1:7659".parse().unwrap();
        let peer = Peer { node: node(number), address, held_bytes: 1_000, free_bytes: 1 };
        Fellow {
            peer,
            incarnation: node(1),
            mark: 1,
            is_live,
            is_replaced: false,
            has_counted: false,
            opened_bytes: None,
            takes: true,
        }
    }

    #[derive(Default)]
    struct Bench {
        watch: Watch,
        now: u64,
    }

    impl Bench {
        /// The stores after so many seconds more: whether one is awaited, there was a loss, and a gain.
        fn after(&mut self, seconds: u64, fellows: &[Fellow]) -> (bool, bool, bool) {
            self.now += seconds;
            let seen = self.watch.look(fellows.to_vec(), Duration::from_secs(self.now), LOST_AFTER);
            (seen.is_awaiting, seen.was_loss, seen.was_gain)
        }
    }

    #[test]
    fn who_is_down_is_awaited_and_then_lost_once() {
        let mut bench = Bench::default();
        assert_eq!(bench.after(0, &[fellow(1, true)]), (false, false, true));
        assert_eq!(bench.after(1, &[fellow(1, true)]), (false, false, false));
        assert_eq!(bench.after(1, &[fellow(1, false)]), (true, false, false));
        assert_eq!(bench.after(59, &[fellow(1, false)]), (true, false, false));
        assert_eq!(bench.after(1, &[fellow(1, false)]), (false, true, false));
        assert_eq!(bench.watch.lost(), [node(1)]);
        assert_eq!(bench.after(1, &[fellow(1, false)]), (false, false, false));
        assert_eq!(bench.after(1, &[fellow(1, true)]), (false, false, true));
        assert!(bench.watch.lost().is_empty());
        assert_eq!(bench.after(1, &[fellow(1, false)]), (true, false, false), "and from the beginning");
    }

    #[test]
    fn who_is_forgotten_is_lost_as_well() {
        let mut bench = Bench::default();
        bench.after(0, &[fellow(1, true)]);
        assert_eq!(bench.after(1, &[]), (true, false, false));
        assert_eq!(bench.after(60, &[]), (false, true, false));
    }

    #[test]
    fn who_comes_back_with_less_is_a_loss() {
        let mut bench = Bench::default();
        bench.after(0, &[fellow(1, true)]);
        let with = |held_bytes| {
            let mut back = Fellow { incarnation: node(2), ..fellow(1, true) };
            back.peer.held_bytes = held_bytes;
            back
        };
        assert_eq!(bench.after(1, &[with(0)]), (false, false, false), "it may not have looked yet");
        assert_eq!(bench.after(60, &[with(499)]), (false, true, false));
        assert_eq!(bench.after(60, &[with(499)]), (false, false, false));
        let mut bench = Bench::default();
        bench.after(0, &[fellow(1, true)]);
        bench.after(1, &[with(0)]);
        assert_eq!(bench.after(60, &[with(900)]), (false, false, false));
    }

    #[test]
    fn a_replaced_store_is_lost_at_once() {
        let mut bench = Bench::default();
        bench.after(0, &[fellow(1, true)]);
        bench.after(1, &[fellow(1, false)]);
        let replaced = Fellow { is_replaced: true, ..fellow(1, false) };
        assert_eq!(bench.after(1, &[replaced, fellow(2, true)]), (false, true, true));
        assert_eq!(bench.watch.lost(), [node(1)]);
        assert_eq!(bench.after(1, &[replaced, fellow(2, true)]), (false, false, false), "it is lost once");
        // Its disk is mounted elsewhere after all.
        bench.after(1, &[fellow(1, true), fellow(2, true)]);
        assert!(bench.watch.lost().is_empty());
    }

    #[test]
    fn an_emptied_shelf_is_a_loss_when_it_is_counted() {
        let mut bench = Bench::default();
        bench.after(0, &[fellow(1, true)]);
        let with = |held_bytes, has_counted| {
            let mut back = Fellow { incarnation: node(2), has_counted, ..fellow(1, true) };
            back.peer.held_bytes = held_bytes;
            back
        };
        assert_eq!(bench.after(1, &[with(0, false)]), (false, false, false), "it has not counted yet");
        assert_eq!(bench.after(1, &[with(0, true)]), (false, true, false));
        assert_eq!(bench.after(60, &[with(0, true)]), (false, false, false), "it is a loss once");
        let mut bench = Bench::default();
        bench.after(0, &[fellow(1, true)]);
        assert_eq!(bench.after(1, &[with(1_000, true)]), (false, false, false), "a mere restart is none");
        let mut bench = Bench::default();
        bench.after(0, &[fellow(1, true)]);
        let filled = Fellow { opened_bytes: Some(0), ..with(900, true) };
        assert_eq!(bench.after(1, &[filled]), (false, true, false), "others have filled it again");
        assert_eq!(bench.after(1, &[filled]), (false, false, false), "it is a loss once");
    }

    #[test]
    fn who_was_walked_over_can_be_done_without_until_it_tells_anything() {
        let mut bench = Bench::default();
        let told = |mark, is_live| Fellow { mark, ..fellow(1, is_live) };
        bench.after(0, &[told(1, true), fellow(2, true)]);
        bench.after(1, &[told(2, false), fellow(2, true)]);
        bench.watch.walked();
        assert!(bench.watch.made_good().is_empty(), "it may come back");
        bench.after(60, &[told(2, false), fellow(2, true)]);
        assert!(bench.watch.made_good().is_empty(), "nobody has walked since");
        bench.watch.walked();
        assert_eq!(bench.watch.made_good(), [2]);
        assert_eq!(bench.after(1, &[told(3, false), fellow(2, true)]), (false, true, false), "another has heard of it");
        assert!(bench.watch.made_good().is_empty());
        bench.watch.walked();
        assert_eq!(bench.watch.made_good(), [3]);
        let shrunk =
            Fellow { incarnation: node(2), peer: Peer { held_bytes: 10, ..fellow(2, true).peer }, ..fellow(2, true) };
        bench.after(1, &[told(3, false), shrunk]);
        assert_eq!(bench.watch.made_good(), [3]);
        assert_eq!(bench.after(60, &[told(3, false), shrunk]), (false, true, false));
        assert!(bench.watch.made_good().is_empty(), "what it lost may have been the other copy");
        bench.watch.walked();
        bench.after(1, &[told(4, true), shrunk]);
        assert!(bench.watch.made_good().is_empty(), "it is back");
        bench.after(1, &[told(4, false), shrunk]);
        bench.after(60, &[told(4, false), shrunk]);
        assert!(bench.watch.made_good().is_empty(), "and gone again");
    }

    #[test]
    fn who_takes_copies_again_is_a_gain() {
        let mut bench = Bench::default();
        let takes = |takes| Fellow { takes, ..fellow(1, true) };
        bench.after(0, &[takes(true)]);
        assert_eq!(bench.after(1, &[takes(false)]), (false, false, false));
        assert_eq!(bench.after(1, &[takes(true)]), (false, false, true));
        assert_eq!(bench.after(1, &[takes(true)]), (false, false, false));
    }

    #[test]
    fn as_many_as_there_are_copies_are_not_made_good() {
        let mut bench = Bench::default();
        let both = [fellow(1, false), fellow(2, false)];
        bench.after(0, &[fellow(1, false), fellow(2, true)]);
        bench.after(60, &[fellow(1, false), fellow(2, true)]);
        assert!(bench.watch.make_good(2), "one of them");
        bench.after(1, &both);
        bench.after(60, &both);
        assert!(bench.watch.make_good(2), "one after the other");
        let mut bench = Bench::default();
        bench.after(0, &both);
        bench.after(60, &both);
        assert!(!bench.watch.make_good(2));
        assert!(bench.watch.make_good(3));
        let mut bench = Bench::default();
        bench.after(0, &both);
        bench.after(60, &both);
        assert_eq!(bench.after(1, &both[..1]), (false, true, false), "one of them is forgotten");
        assert!(bench.watch.make_good(2));
    }
}
