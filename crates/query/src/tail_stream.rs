//! A tail, of one engine or of all nodes, as events.

use std::sync::Arc;

use bucksaw_env::Tasks;

use crate::local_tail::LocalTail;
use crate::scatter::ScatterTail;
use crate::tail::Tail;
use crate::tail_event::TailEvent;

/// New records as they are accepted. Dropping it ends the tail on all nodes.
pub struct TailStream(TailSource);

enum TailSource {
    Local(Box<LocalTail>),
    Cluster(Box<ScatterTail>),
}

impl TailStream {
    pub(crate) fn local(tail: Tail, tasks: Arc<dyn Tasks>) -> Self {
        Self(TailSource::Local(Box::new(LocalTail::new(tail, tasks))))
    }

    pub(crate) fn cluster(tail: ScatterTail) -> Self {
        Self(TailSource::Cluster(Box::new(tail)))
    }

    /// Waits for the next event. `None` only after an internal error. Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<TailEvent> {
        match &mut self.0 {
            TailSource::Local(tail) => tail.next().await,
            TailSource::Cluster(tail) => Some(tail.next().await),
        }
    }
}
