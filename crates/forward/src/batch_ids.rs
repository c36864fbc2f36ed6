//! The ids of the batches of one input.

use bucksaw_env::Env;
use bucksaw_record::{Id, IdAllocator, Millis, Producer};

/// Assigns ids to batches, from one random producer after another.
pub(crate) struct BatchIds {
    env: Env,
    allocator: IdAllocator,
}

impl BatchIds {
    pub(crate) fn new(env: &Env) -> Self {
        Self { env: env.clone(), allocator: IdAllocator::new(Producer::random(env.entropy.next_u64())) }
    }

    /// The first of `count` consecutive ids, which no other batch gets.
    pub(crate) fn next_first_id(&mut self, now: Millis, count: u32) -> Id {
        let first = self.allocator.next_first_id(now, count).unwrap_or_else(|| {
            let producer = Producer::random(self.env.entropy.next_u64());
            self.allocator = IdAllocator::new(producer);
            Id::new(now, producer, 0)
        });
        self.allocator.advance(first, count);
        first
    }
}
