//! The kinds of simulated queries.

use bucksaw_query::Order;

use crate::query_filter::QueryFilter;
use crate::rng::SeededRng;

/// The highest limit of a random query, in records.
const LIMIT_MAX: usize = 200;

/// The limit of the newest-first queries of the final check, in records.
const FINAL_LIMIT: u64 = 20;

/// What a query asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryKind {
    /// Matching records in an order, up to a limit.
    Records(Order, Option<u64>, QueryFilter),
    /// The number of matching records.
    Count(QueryFilter),
    /// The number of records in each bucket of time.
    Histogram,
}

impl QueryKind {
    /// The queries of the final check.
    pub(crate) const FINAL: [Self; 8] = [
        Self::Records(Order::Ascending, None, QueryFilter::ALL),
        Self::Records(Order::Descending, None, QueryFilter::ALL),
        Self::Records(Order::Descending, Some(FINAL_LIMIT), QueryFilter::ALL),
        Self::Records(Order::Ascending, None, QueryFilter::LITERAL),
        Self::Records(Order::Descending, Some(FINAL_LIMIT), QueryFilter::REGEX),
        Self::Count(QueryFilter::ALL),
        Self::Count(QueryFilter::LITERAL),
        Self::Histogram,
    ];

    pub(crate) fn random(rng: &SeededRng) -> Self {
        let order = if rng.percent(50) { Order::Ascending } else { Order::Descending };
        let filter = QueryFilter::random(rng);
        match rng.below(6) {
            0 => Self::Count(filter),
            1 => Self::Histogram,
            2 | 3 => Self::Records(order, Some(rng.between(1, LIMIT_MAX) as u64), filter),
            _ => Self::Records(order, None, filter),
        }
    }
}
