//! Where all sources append.

use std::sync::Arc;

use bucksaw_env::Env;
use bucksaw_ingest::Queue;
use bucksaw_record::{Millis, Producer};

use super::event_filter::EventFilter;

/// Where all sources append: the queue, with the clock and the random numbers of its node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Intake {
    /// Takes the records.
    pub queue: Arc<Queue>,
    /// Time and randomness.
    pub env: Env,
    /// What decides about decoded events. Lines and framed batches are not filtered.
    pub filter: Option<Arc<dyn EventFilter>>,
}

impl Intake {
    /// Appends to a queue, without a filter.
    pub fn new(queue: Arc<Queue>, env: Env) -> Self {
        Self { queue, env, filter: None }
    }

    /// The same with a filter.
    #[must_use]
    pub fn with_filter(self, filter: Option<Arc<dyn EventFilter>>) -> Self {
        Self { filter, ..self }
    }

    /// The time by the node's clock.
    pub fn now(&self) -> Millis {
        Millis(self.env.clock.unix_ms()).min(Millis::MAX)
    }

    /// A random producer, which no other source has.
    pub fn new_producer(&self) -> Producer {
        Producer::random(self.env.entropy.next_u64())
    }
}
