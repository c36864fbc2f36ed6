//! The formulas for a load: those that the plan uses, and those of leases.

use bucksaw_model::{
    Collision, Distribution, LeaseRace, SegmentFormation, SharedServers, superposed_variation_squared,
};

use super::calibration::{APPEND_BYTES, GATHER_SECONDS, GATHER_VARIATION, SEGMENT_APPENDS, SEGMENT_TEXT_BYTES};
use super::figures::QueueingFigures;
use super::load::QueueingLoad;

/// Age in seconds at which a queue segment is sealed.
const SEGMENT_AGE_SECONDS: f64 = 3.0;

/// Mean seconds of a delay of the healthy network: 0.1 to 1 ms.
const DELAY_SECONDS: f64 = 0.000_55;

/// Mean seconds until a call has its reply: two delays to connect, and two each for the heads and the bodies of request and reply.
const CALL_SECONDS: f64 = 6.0 * DELAY_SECONDS;

/// The part of it until the request has arrived, and the rest, after which the reply has.
const REQUEST_SECONDS: f64 = 4.0 * DELAY_SECONDS;
const REPLY_SECONDS: f64 = 2.0 * DELAY_SECONDS;

/// Mean seconds that blocking work takes besides its syncs: 20 to 500 µs.
const BLOCKING_SECONDS: f64 = 0.000_26;

/// Pauses of a store: after a gather, and after a round over all queues that found nothing.
const GATHER_PAUSE_SECONDS: f64 = 0.020;
const VAIN_PAUSE_SECONDS: f64 = 0.050;

impl QueueingLoad {
    fn segments(self) -> SegmentFormation {
        SegmentFormation {
            appends_per_second: self.appends_per_second(),
            append_bytes: APPEND_BYTES as f64,
            bytes_max: SEGMENT_TEXT_BYTES as f64,
            age_seconds_max: SEGMENT_AGE_SECONDS,
        }
    }

    fn gathers(self, seconds: f64) -> Option<SharedServers> {
        Some(SharedServers {
            arrivals_per_second: self.segments_per_second(),
            servers: self.stores(),
            service: Distribution::lognormal(seconds, GATHER_VARIATION * GATHER_SECONDS / seconds).ok()?,
        })
    }

    /// The formulas of the plan: one queue of Poisson arrivals for all stores (M/G/c), segments that their last append seals, and
    /// stores that pick without leases. `None` without a steady state.
    pub(super) fn plan_formulas(self) -> Option<QueueingFigures> {
        let gathers = self.gathers(GATHER_SECONDS)?;
        let picks = Collision::settled(self.stores(), GATHER_SECONDS, self.segments_per_second())?;
        let stored = self.segments().record_wait()?.plus(&gathers.response()?);
        let waiting = gathers.mean_wait()? * self.segments_per_second();
        Some(QueueingFigures {
            waiting,
            uncommitted: waiting + self.segments_per_second() * GATHER_SECONDS,
            stored_mean: stored.mean(),
            stored_p99: stored.quantile(0.99),
            vain_rounds: picks.fetched_per_stored() - 1.0,
            empty_share: picks.wasted_share(),
            consumed_ratio: picks.fetched_per_stored(),
        })
    }

    /// The formulas for what stores do: the append that does not fit seals a segment, segments of few nodes arrive more evenly
    /// than Poisson, calls and pauses keep a store busy, and a lease gives a segment to one store. `None` without a steady state.
    pub(super) fn lease_formulas(self) -> Option<QueueingFigures> {
        // The wait call that reports the segment, and a fetch: leasing, a temporary file, reading, writing and checking.
        let until_leased = REPLY_SECONDS + REQUEST_SECONDS + BLOCKING_SECONDS / 2.0;
        let fetch = REPLY_SECONDS + CALL_SECONDS + 5.0 * BLOCKING_SECONDS;
        let ack = CALL_SECONDS + BLOCKING_SECONDS;
        let busy = fetch + GATHER_SECONDS + BLOCKING_SECONDS + ack + GATHER_PAUSE_SECONDS + REQUEST_SECONDS;
        let held = fetch + GATHER_SECONDS + BLOCKING_SECONDS + ack;
        let gathers = self.gathers(busy)?;
        let variation = 1.0 / f64::from(SEGMENT_APPENDS).sqrt();
        let arrivals = superposed_variation_squared(self.ingest_nodes(), variation, gathers.utilisation())?;
        let wait = gathers.wait_of_arrivals(arrivals)?;
        let service = Distribution::lognormal(held, GATHER_VARIATION * GATHER_SECONDS / held).ok()?;
        let next_append = Distribution::exponential(1.0 / self.appends_per_second()).ok()?;
        let vain_seconds = f64::from(self.ingest_nodes()) * (CALL_SECONDS + BLOCKING_SECONDS) + VAIN_PAUSE_SECONDS;
        let race = LeaseRace {
            stores: self.stores(),
            segments_per_second: self.segments_per_second(),
            busy_seconds: busy,
            vain_seconds: vain_seconds + REQUEST_SECONDS,
        };
        let vain_wait = race.vain_wait_seconds()?;
        let stored = self.segments().record_wait()?.plus(&next_append).plus(&wait).plus(&service);
        let stored = stored.plus(&Distribution::constant(vain_wait).ok()?);
        let waiting = (until_leased + wait.mean() + vain_wait) * self.segments_per_second();
        let vain_rounds = race.vain_per_segment()?;
        // A round in vain asks every queue; the round that finds a segment begins with its queue.
        let empty_fetches = vain_rounds * f64::from(self.ingest_nodes());
        Some(QueueingFigures {
            waiting,
            uncommitted: waiting + self.segments_per_second() * (held - until_leased),
            stored_mean: stored.mean(),
            stored_p99: stored.quantile(0.99),
            vain_rounds,
            empty_share: empty_fetches / (empty_fetches + 1.0),
            consumed_ratio: 1.0,
        })
    }
}
