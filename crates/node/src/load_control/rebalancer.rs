//! When a node that takes in more than its share sends some of its clients away, and how many.
//!
//! It begins when it has had clearly more than another over the last while, by half of the mean of all, and ends when the
//! difference is no more than a quarter. While it lasts the clients that may go bring, all together, half of what the node
//! has more than the mean, every [`OFFERS_APART`] seconds: the rest of the way is measured before it is gone, and where many
//! nodes send to one, each what it has too much, that one gets half of what it lacks. Where
//! chance was against all who could go there is nothing to be measured, and it offers again sooner. Which clients these are,
//! and where they go, is left to [`Guide::turn`](bucksaw_ingest::shedder::Guide::turn), which moves none that would come back.
//!
//! A new node is seen by the difference to it, and not by what the others have more than the mean: of ten nodes that is a
//! tenth when an eleventh comes.

/// Seconds between two offers.
pub const OFFER_PERIOD_SECONDS: u32 = 10;

/// Seconds until the next offer where nobody went after the last: there is nothing to be measured.
pub const OFFER_RETRY_SECONDS: u32 = 5;

/// So many seconds, one after the other, the difference must be clear before it begins.
pub const EXCESS_SECONDS_MIN: u32 = 5;

/// A node that takes in less than one in so many parts of what makes one busy sends nobody away.
pub const BUSY_FRACTION: u64 = 64;

/// A node among the others, in one second. All are bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterLoad {
    /// What it takes in.
    pub own: u64,
    /// The mean of that over all live ingest nodes, this one among them.
    pub mean: u64,
    /// The least of the others that are no busier than it is; none when there is no such.
    pub least_loaded: Option<u64>,
    /// What it has more than the mean, now or over the last while, whichever is less.
    pub excess: u64,
    /// How much more it has taken in than another over the last while: see `calm`.
    pub smoothed_excess: u64,
    /// What it offers at least, when it has to let clients go, or is busy for another reason; `None` when it has none.
    pub offer_min: Option<u64>,
}

/// Follows the difference, a second at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rebalancer {
    /// Whether the difference was clear, and is not small yet.
    is_rebalancing: bool,
    /// Seconds for which it has been clear.
    excess_seconds: u32,
    /// Seconds until it offers again.
    pause_seconds: u32,
}

impl Rebalancer {
    /// Takes another second, where fewer than `busy` bytes a second never make a node busy. `in_vain` says that the last offer
    /// is over and nobody went. Returns what clients that may go bring, from now on, in bytes a second; `None` where it stays
    /// as it was said last.
    pub fn step(&mut self, scene: ClusterLoad, busy: u64, in_vain: bool) -> Option<u64> {
        let ClusterLoad { own, mean, least_loaded: least, excess, smoothed_excess: lasting, offer_min: distress } =
            scene;
        let difference = least.map_or(0, |least| u128::from(own.saturating_sub(least)));
        let counts = excess > 0 && u128::from(own) * u128::from(BUSY_FRACTION) >= u128::from(busy);
        let differs = counts && difference > 0 && difference * 4 >= u128::from(mean);
        let clear = differs && u128::from(lasting) * 2 >= u128::from(mean);
        self.excess_seconds = if clear { self.excess_seconds.saturating_add(1) } else { 0 };
        self.is_rebalancing = differs && (self.is_rebalancing || self.excess_seconds >= EXCESS_SECONDS_MIN);
        let pause = if in_vain { self.pause_seconds.min(OFFER_RETRY_SECONDS) } else { self.pause_seconds };
        self.pause_seconds = pause.saturating_sub(1);
        if !self.is_rebalancing && distress.is_none() {
            return Some(0);
        }
        if self.pause_seconds > 0 {
            return None;
        }
        self.pause_seconds = OFFER_PERIOD_SECONDS;
        Some((excess / 2).max(distress.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is offered in each second of a row.
    fn offers(relief: &mut Rebalancer, seconds: u32, own: u64, mean: u64, least: u64) -> Vec<Option<u64>> {
        let (excess, lasting) = (own.saturating_sub(mean), own.saturating_sub(least));
        let scene =
            ClusterLoad { own, mean, least_loaded: Some(least), excess, smoothed_excess: lasting, offer_min: None };
        (0..seconds).map(|_| relief.step(scene, 6_400, false)).collect()
    }

    #[test]
    fn it_begins_late_and_ends_when_little_is_left() {
        let mut relief = Rebalancer::default();
        let mut check = |seconds, own, mean, least, want: &[(usize, u64)]| {
            let offers = offers(&mut relief, seconds, own, mean, least);
            let made = offers.iter().enumerate().filter_map(|(at, offer)| Some((at, (*offer)?)));
            assert_eq!(made.filter(|(_, offer)| *offer > 0).collect::<Vec<_>>(), want, "{own} {mean} {least}");
            offers
        };
        // A third more than the mean, and another has nothing.
        check(4, 400, 300, 0, &[]);
        check(1, 299, 300, 0, &[]);
        check(26, 400, 300, 0, &[(4, 50), (14, 50), (24, 50)]);
        // It goes on until the difference is small, and not anew before it is clear again.
        check(20, 320, 300, 240, &[(8, 10), (18, 10)]);
        assert!(check(20, 320, 300, 246, &[]).iter().all(|offer| *offer == Some(0)));
        check(20, 320, 300, 180, &[]);
        check(5, 320, 300, 170, &[(4, 10)]);
        // Below the floor nobody is sent anywhere.
        check(30, 99, 50, 0, &[]);
        check(30, 0, 0, 0, &[]);
    }

    #[test]
    fn a_burst_is_no_reason() {
        let mut relief = Rebalancer::default();
        let scene = ClusterLoad {
            own: 900,
            mean: 300,
            least_loaded: Some(0),
            excess: 600,
            smoothed_excess: 149,
            offer_min: None,
        };
        assert!((0..60).all(|_| relief.step(scene, 6_400, false) == Some(0)));
        let scene = ClusterLoad { smoothed_excess: 150, ..scene };
        assert_eq!((0..5).map(|_| relief.step(scene, 6_400, false)).max(), Some(Some(300)));
    }

    #[test]
    fn an_unused_offer_is_repeated_sooner() {
        let mut relief = Rebalancer::default();
        let scene = ClusterLoad {
            own: 400,
            mean: 300,
            least_loaded: Some(0),
            excess: 100,
            smoothed_excess: 400,
            offer_min: None,
        };
        // From the second on after each offer, as it is when the first client that asks has bad luck.
        let mut in_vain = false;
        let mut made = Vec::new();
        for second in 0..20 {
            let offer = relief.step(scene, 6_400, in_vain);
            in_vain = offer.is_none();
            made.extend(offer.filter(|offer| *offer > 0).map(|_| second));
        }
        assert_eq!(made, [4, 10, 16]);
    }

    #[test]
    fn an_overloaded_node_always_offers() {
        let mut relief = Rebalancer::default();
        let scene =
            ClusterLoad { own: 10, mean: 30, least_loaded: None, excess: 0, smoothed_excess: 0, offer_min: Some(7) };
        let offers: Vec<_> = (0..11).map(|_| relief.step(scene, 6_400, false)).collect();
        assert_eq!((offers[0], offers[1], offers[10]), (Some(7), None, Some(7)));
        let scene = ClusterLoad {
            own: u64::MAX,
            mean: 0,
            least_loaded: Some(0),
            excess: u64::MAX,
            smoothed_excess: 0,
            offer_min: Some(0),
        };
        assert_eq!(Rebalancer::default().step(scene, 0, false), Some(u64::MAX / 2));
    }
}
