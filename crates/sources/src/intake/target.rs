//! Where all sources append.

use std::borrow::Cow;
use std::sync::Arc;

use bucksaw_auth::ClientAccess;
use bucksaw_env::Env;
use bucksaw_ingest::{Queue, ScopedIds};
use bucksaw_record::{Id, LabelScope, Labels, Millis, Producer};

use super::event_filter::EventFilter;
use super::reserved;

/// Where all sources append: the queue, with the clock and the random numbers of its node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Intake {
    /// Takes the records.
    pub queue: Arc<Queue>,
    /// Time and randomness.
    pub env: Env,
    /// What decides about decoded events. Lines and framed batches are not filtered.
    pub filter: Option<Arc<dyn EventFilter>>,
    tenant: Option<Arc<Tenant>>,
    client: ClientAccess,
    /// Whether the records are Bucksaw's own, so that they may have the reserved label.
    is_own: bool,
}

/// What the label scope of a client changes of its records.
#[derive(Debug)]
struct Tenant {
    scope: LabelScope,
    ids: ScopedIds,
}

impl Tenant {
    /// The labels with those of the scope, and how many are dropped for these.
    fn imposed<'a>(&self, labels: &'a Labels) -> (Cow<'a, Labels>, u64) {
        let own = self.scope.labels();
        if own.iter().all(|(name, value)| labels.get(name) == Some(value)) {
            return (Cow::Borrowed(labels), 0);
        }
        if let Ok(imposed) = self.scope.impose(labels) {
            return (Cow::Owned(imposed), 0);
        }
        let others = || labels.iter().filter(|(name, _)| own.get(name).is_none());
        let room = Labels::COUNT_MAX.saturating_sub(own.iter().count());
        let dropped = others().count().saturating_sub(room) as u64;
        // There is room for all of them, so this does not fail.
        (Cow::Owned(Labels::new(own.iter().chain(others().take(room))).unwrap_or_else(|_| own.clone())), dropped)
    }
}

impl Intake {
    /// Appends to a queue, without a filter, for clients without a label scope.
    pub fn new(queue: Arc<Queue>, env: Env) -> Self {
        Self { queue, env, filter: None, tenant: None, client: ClientAccess::default(), is_own: false }
    }

    /// The same for a client with this label scope: all of its records get the labels of the scope, whatever the protocol, and
    /// its ids and idempotency keys are apart from those of clients with another scope.
    #[must_use]
    pub fn within(self, scope: Option<&LabelScope>) -> Self {
        let tenant = scope.and_then(|scope| Some(Tenant { ids: ScopedIds::new(scope)?, scope: scope.clone() }));
        Self { tenant: tenant.map(Arc::new), ..self }
    }

    /// The same for a client: within its label scope, and its accepted text is counted.
    #[must_use]
    pub fn of_client(self, client: &ClientAccess) -> Self {
        Self { client: client.clone(), ..self.within(client.scope()) }
    }

    /// The client whose records are appended.
    pub fn client(&self) -> &ClientAccess {
        &self.client
    }

    /// The same for what Bucksaw records about itself.
    pub(crate) fn for_own_records(self) -> Self {
        Self { filter: None, tenant: None, client: ClientAccess::default(), is_own: true, ..self }
    }

    /// The labels with which records of a client are stored, and how many of its own are dropped: with those of its scope, and
    /// without a reserved one, which is renamed. Labels are dropped only if there is no room for those of the scope.
    pub fn stored_labels<'a>(&self, labels: &'a Labels) -> (Cow<'a, Labels>, u64) {
        let (labels, dropped) = match &self.tenant {
            Some(tenant) => tenant.imposed(labels),
            None => (Cow::Borrowed(labels), 0),
        };
        match labels.is_reserved() && !self.is_own {
            true => (Cow::Owned(reserved::renamed(&labels)), dropped),
            false => (labels, dropped),
        }
    }

    /// The label scope of the client, if it has one with labels.
    pub fn scope(&self) -> Option<&LabelScope> {
        self.tenant.as_ref().map(|tenant| &tenant.scope)
    }

    pub(super) fn tenant_ids(&self) -> Option<&ScopedIds> {
        self.tenant.as_ref().map(|tenant| &tenant.ids)
    }

    /// The id of a record whose client chose this one.
    pub(super) fn tenant_id(&self, chosen: Id) -> Id {
        let producer = |ids: &ScopedIds| ids.producer(chosen.producer());
        let id = |producer| Id::new(chosen.time(), producer, chosen.sequence());
        self.tenant_ids().map_or(chosen, |ids| id(producer(ids)))
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
