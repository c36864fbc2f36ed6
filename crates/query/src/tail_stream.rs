//! A tail, of one engine or of all nodes, as events.

use std::sync::Arc;

use bucksaw_env::Tasks;

use crate::local_tail::LocalTail;
use crate::scatter::ScatterTail;
use crate::tail::Tail;
use crate::tail_event::TailEvent;

/// New records as they are accepted. Dropping it ends the tail on all nodes.
pub struct TailStream {
    source: TailSource,
    is_scoped: bool,
}

enum TailSource {
    Local(Box<LocalTail>),
    Cluster(Box<ScatterTail>),
}

impl TailStream {
    pub(crate) fn local(tail: Tail, tasks: Arc<dyn Tasks>) -> Self {
        Self { source: TailSource::Local(Box::new(LocalTail::new(tail, tasks))), is_scoped: false }
    }

    pub(crate) fn cluster(tail: ScatterTail) -> Self {
        Self { source: TailSource::Cluster(Box::new(tail)), is_scoped: false }
    }

    /// For a client with a label scope: skipped records are reported to it without their bytes, which are of all streams.
    pub(crate) fn scoped_if(self, is_scoped: bool) -> Self {
        Self { is_scoped, ..self }
    }

    /// Waits for the next event. `None` only after an internal error. Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<TailEvent> {
        let event = match &mut self.source {
            TailSource::Local(tail) => tail.next().await?,
            TailSource::Cluster(tail) => tail.next().await,
        };
        Some(match event {
            TailEvent::Skipped { address, .. } if self.is_scoped => TailEvent::Skipped { address, bytes: 0 },
            event => event,
        })
    }
}
