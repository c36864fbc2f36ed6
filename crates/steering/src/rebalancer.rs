//! Decides when a node offers clients to others, and how many bytes per second.
//!
//! The trigger is the lead over the least loaded node, not over the mean: if an eleventh node joins ten, each of the ten
//! exceeds the mean by only a tenth. The amount is half of the excess over the mean: if many nodes offer to one, it receives
//! half of the difference.

use crate::level::IngestRates;

/// Seconds between two offers.
pub(crate) const OFFER_PERIOD_SECONDS: u32 = 10;

/// Seconds until the next offer if the budget was spent without a redirect.
pub(crate) const OFFER_RETRY_SECONDS: u32 = 5;

/// Consecutive seconds with a clear lead after which rebalancing begins.
const LEAD_SECONDS_MIN: u32 = 5;

/// A node whose ingest rate is below the busy rate divided by this redirects no clients.
pub const BUSY_FRACTION: u64 = 64;

/// By how much a node exceeds others, in bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lead {
    /// Over the least loaded node of the same or a lower level; 0 without one.
    pub(crate) current: u64,
    /// The same, of the smoothed loads.
    pub(crate) smoothed: u64,
    /// Over the mean, by the rates or the smoothed loads, whichever is less.
    pub(crate) excess: u64,
}

/// Follows the lead, second by second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rebalancer {
    is_rebalancing: bool,
    lead_seconds: u32,
    pause_seconds: u32,
}

impl Rebalancer {
    /// Evaluates another second. Returns the new redirect budget in bytes per second; `None` if the current one remains.
    ///
    /// `offer_min` is the least offer of a node whose level is above 0. `is_budget_wasted` says that the last budget was spent
    /// without a redirect, so that no effect must be awaited.
    pub(crate) fn step(
        &mut self,
        rates: IngestRates,
        lead: Lead,
        offer_min: Option<u64>,
        is_budget_wasted: bool,
    ) -> Option<u64> {
        let IngestRates { own, mean, busy } = rates;
        let counts = lead.excess > 0 && u128::from(own) * u128::from(BUSY_FRACTION) >= u128::from(busy);
        let leads = counts && lead.current > 0 && u128::from(lead.current) * 4 >= u128::from(mean);
        let is_clear = leads && u128::from(lead.smoothed) * 2 >= u128::from(mean);
        self.lead_seconds = if is_clear { self.lead_seconds.saturating_add(1) } else { 0 };
        self.is_rebalancing = leads && (self.is_rebalancing || self.lead_seconds >= LEAD_SECONDS_MIN);
        if is_budget_wasted {
            self.pause_seconds = self.pause_seconds.min(OFFER_RETRY_SECONDS);
        }
        self.pause_seconds = self.pause_seconds.saturating_sub(1);
        if !self.is_rebalancing && offer_min.is_none() {
            return Some(0);
        }
        if self.pause_seconds > 0 {
            return None;
        }
        self.pause_seconds = OFFER_PERIOD_SECONDS;
        Some((lead.excess / 2).max(offer_min.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: u64 = 6_400;

    fn rates(own: u64, mean: u64) -> IngestRates {
        IngestRates { own, mean, busy: BUSY }
    }

    #[test]
    fn rebalancing_begins_at_half_of_the_mean_and_ends_at_a_quarter() {
        let mut rebalancer = Rebalancer::default();
        let mut check = |seconds: u32, own: u64, mean: u64, least: u64, want: &[(usize, u64)]| {
            let lead = own.saturating_sub(least);
            let lead = Lead { current: lead, smoothed: lead, excess: own.saturating_sub(mean) };
            let offers: Vec<_> = (0..seconds).map(|_| rebalancer.step(rates(own, mean), lead, None, false)).collect();
            let made = offers.iter().enumerate().filter_map(|(at, offer)| Some((at, (*offer)?)));
            assert_eq!(made.filter(|(_, offer)| *offer > 0).collect::<Vec<_>>(), want, "{own} {mean} {least}");
            offers
        };
        // A third more than the mean, and another node has nothing.
        check(4, 400, 300, 0, &[]);
        check(1, 299, 300, 0, &[]);
        check(26, 400, 300, 0, &[(4, 50), (14, 50), (24, 50)]);
        // It continues until the lead is a quarter of the mean, and begins again at half.
        check(20, 320, 300, 240, &[(8, 10), (18, 10)]);
        assert!(check(20, 320, 300, 246, &[]).iter().all(|offer| *offer == Some(0)));
        check(20, 320, 300, 180, &[]);
        check(5, 320, 300, 170, &[(4, 10)]);
        // Below the floor of 100 no client is offered.
        check(30, 99, 50, 0, &[]);
        check(30, 0, 0, 0, &[]);
    }

    #[test]
    fn a_burst_is_not_rebalanced() {
        let mut rebalancer = Rebalancer::default();
        let lead = Lead { current: 900, smoothed: 149, excess: 600 };
        assert!((0..60).all(|_| rebalancer.step(rates(900, 300), lead, None, false) == Some(0)));
        let lead = Lead { smoothed: 150, ..lead };
        let offers = (0..5).map(|_| rebalancer.step(rates(900, 300), lead, None, false));
        assert_eq!(offers.max(), Some(Some(300)));
    }

    #[test]
    fn a_wasted_budget_is_renewed_sooner() {
        let mut rebalancer = Rebalancer::default();
        let lead = Lead { current: 400, smoothed: 400, excess: 100 };
        // Each budget is wasted within a second.
        let mut is_wasted = false;
        let mut made = Vec::new();
        for second in 0..20 {
            let offer = rebalancer.step(rates(400, 300), lead, None, is_wasted);
            is_wasted = offer.is_none();
            made.extend(offer.filter(|offer| *offer > 0).map(|_| second));
        }
        assert_eq!(made, [4, 10, 16]);
    }

    #[test]
    fn an_overloaded_node_offers_without_a_lead() {
        let mut rebalancer = Rebalancer::default();
        let offers: Vec<_> = (0..11).map(|_| rebalancer.step(rates(10, 30), Lead::default(), Some(7), false)).collect();
        assert_eq!((offers[0], offers[1], offers[10]), (Some(7), None, Some(7)));
        let (rates, lead) = (
            IngestRates { own: u64::MAX, mean: 0, busy: 0 },
            Lead { current: u64::MAX, smoothed: 0, excess: u64::MAX },
        );
        assert_eq!(Rebalancer::default().step(rates, lead, Some(0), false), Some(u64::MAX / 2));
    }
}
