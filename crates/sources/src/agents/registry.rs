//! What agents last reported, bounded in number and in time.
//!
//! An agent is known by the id that it states. A client can state any id, so the list is advice for people: it decides
//! nothing. A connection has one id, which its first report states.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bucksaw_env::lock;
use bucksaw_record::LabelScope;
use bucksaw_wire::AgentReport;

/// The most agents that are known at the same time. Further ones take the place of one that has no connection, if there is one.
const AGENTS_MAX: usize = 10_000;

/// How long an agent is known after its last report.
const KEPT_FOR: Duration = Duration::from_secs(15 * 60);

/// An agent and its last report.
#[derive(Clone, Debug)]
pub struct KnownAgent {
    /// What it reported.
    pub report: AgentReport,
    /// The address of its connection.
    pub address: IpAddr,
    /// The label scope of the client that reported.
    pub scope: Option<LabelScope>,
    /// When it reported, as uptime.
    pub seen: Duration,
    /// The number of its connection; `None` once that has ended.
    connection: Option<u64>,
}

impl KnownAgent {
    /// Whether it has a connection to this node.
    pub fn is_connected(&self) -> bool {
        self.connection.is_some()
    }
}

/// The agents of a node.
#[derive(Debug, Default)]
pub struct AgentRegistry(Mutex<RegistryState>);

#[derive(Debug, Default)]
struct RegistryState {
    /// Apart by scope: an agent cannot take the place of one of another tenant by stating its id.
    agents: HashMap<AgentKey, KnownAgent>,
    connections: u64,
}

/// The scope of an agent's client, and the id that it states.
type AgentKey = (Option<LabelScope>, [u8; 16]);

/// A connection that may report. Its end is noted when it is dropped.
pub(crate) struct AgentConnection {
    registry: Arc<AgentRegistry>,
    address: IpAddr,
    scope: Option<LabelScope>,
    number: u64,
    id: Option<[u8; 16]>,
}

impl AgentRegistry {
    fn state(&self) -> MutexGuard<'_, RegistryState> {
        lock(&self.0)
    }

    /// Notes the begin of a connection of a client with this label scope.
    pub(crate) fn connect(self: &Arc<Self>, address: IpAddr, scope: Option<LabelScope>) -> AgentConnection {
        let mut state = self.state();
        state.connections += 1;
        AgentConnection { registry: Arc::clone(self), address, scope, number: state.connections, id: None }
    }

    /// The agents with a report that is young enough, by their ids.
    pub fn agents(&self, now: Duration) -> Vec<KnownAgent> {
        let mut state = self.state();
        state.agents.retain(|_, agent| now.saturating_sub(agent.seen) < KEPT_FOR);
        let mut agents: Vec<KnownAgent> = state.agents.values().cloned().collect();
        agents.sort_by(|a, b| (a.report.id, &a.scope).cmp(&(b.report.id, &b.scope)));
        agents
    }
}

impl RegistryState {
    /// Whether there is room for one more agent, after one without a connection was forgotten.
    fn make_room(&mut self) -> bool {
        if self.agents.len() < AGENTS_MAX {
            return true;
        }
        let gone = self.agents.iter().filter(|(_, agent)| !agent.is_connected());
        let oldest = gone.min_by_key(|(_, agent)| agent.seen).map(|(key, _)| key.clone());
        oldest.is_some_and(|key| self.agents.remove(&key).is_some())
    }
}

impl AgentConnection {
    /// Sets the label scope of the client, which it presents after the connection has begun.
    pub(crate) fn set_scope(&mut self, scope: Option<LabelScope>) {
        self.scope = scope;
    }

    /// Notes a report. One with another id than the first one of the connection is ignored.
    pub(crate) fn report(&mut self, report: AgentReport, now: Duration) {
        let id = *self.id.get_or_insert(report.id);
        let key = (self.scope.clone(), id);
        let mut state = self.registry.state();
        if id == report.id && (state.agents.contains_key(&key) || state.make_room()) {
            let (address, scope) = (self.address, self.scope.clone());
            state.agents.insert(key, KnownAgent { report, address, scope, seen: now, connection: Some(self.number) });
        }
    }
}

impl Drop for AgentConnection {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        // The agent may have a newer connection.
        if let Some(agent) = self.registry.state().agents.get_mut(&(self.scope.clone(), id))
            && agent.connection == Some(self.number)
        {
            agent.connection = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use bucksaw_record::Labels;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn report(number: u32) -> AgentReport {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        AgentReport { id, files: u64::from(number), ..AgentReport::default() }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn known(registry: &AgentRegistry, now: u64) -> Vec<(u64, bool)> {
        let agents = registry.agents(seconds(now));
        agents.iter().map(|agent| (agent.report.files, agent.is_connected())).collect()
    }

    #[test]
    fn an_agent_is_known_until_some_time_after_its_last_report() {
        let registry = Arc::new(AgentRegistry::default());
        let mut first = registry.connect(PEER, None);
        first.report(report(1), seconds(10));
        // Not the id of this connection.
        first.report(report(2), seconds(11));
        assert_eq!(known(&registry, 20), [(1, true)]);
        let mut second = registry.connect(PEER, None);
        second.report(report(1), seconds(20));
        drop(first);
        assert_eq!(known(&registry, 30), [(1, true)]);
        drop(second);
        assert_eq!(known(&registry, 919), [(1, false)]);
        assert_eq!(known(&registry, 920), []);
    }

    #[test]
    fn an_agent_cannot_take_the_place_of_one_of_another_tenant() {
        let registry = Arc::new(AgentRegistry::default());
        let scope = |labels: &str| Some(LabelScope::new(Labels::parse(labels).unwrap()));
        for (tenant, files) in [("tenant=a", 1), ("tenant=b", 2)] {
            let mut connection = registry.connect(PEER, scope(tenant));
            connection.report(AgentReport { files, ..report(7) }, seconds(1));
        }
        assert_eq!(known(&registry, 2), [(1, false), (2, false)]);
    }

    #[test]
    fn the_number_of_agents_is_bounded() {
        let registry = Arc::new(AgentRegistry::default());
        let mut connections = Vec::new();
        for number in 1..=AGENTS_MAX as u32 {
            let mut connection = registry.connect(PEER, None);
            connection.report(report(number), seconds(u64::from(number)));
            connections.push(connection);
        }
        // No agent gives way while it has a connection.
        let mut late = registry.connect(PEER, None);
        late.report(report(20_000), seconds(1));
        let has = |number: u32| registry.state().agents.contains_key(&(None, report(number).id));
        assert!(!has(20_000) && has(7));
        drop(connections.remove(6));
        drop(connections.remove(100));
        late.report(report(20_000), seconds(1));
        assert!(has(20_000) && !has(7) && has(102));
        assert_eq!(registry.state().agents.len(), AGENTS_MAX);
    }
}
