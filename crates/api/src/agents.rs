//! `GET /api/v1/agents`: the agents that report to the nodes of the cluster.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use bucksaw_cluster::Cluster;
use bucksaw_env::Body;
use bucksaw_sources::{AgentRegistry, KnownAgent};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::app::App;

/// Name of the call between nodes that returns an [`AgentPage`].
const AGENTS: &str = "node/agents";

/// Time limit of an [`AGENTS`] call.
const AGENTS_TIMEOUT: Duration = Duration::from_secs(2);

/// The most agents of one answer, those with problems first.
const LISTED_MAX: usize = 1_000;

/// An agent as nodes describe it to each other and to clients. Missing fields of an older node have defaults.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ListedAgent {
    id: String,
    host: String,
    version: String,
    address: String,
    node: String,
    connected: bool,
    seen_seconds: f64,
    files: u64,
    unreadable_files: u64,
    lag_bytes: u64,
    lag_seconds: f64,
    buffer_bytes: u64,
    gaps: u64,
    dropped_records: u64,
    acked_records: u64,
}

/// The agents of one node, at most [`LISTED_MAX`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct AgentPage {
    agents: Vec<ListedAgent>,
    count: usize,
}

impl App {
    /// Shows the agents of this registry, and serves them to the other nodes of the cluster.
    #[must_use]
    pub fn with_agents(self, agents: Arc<AgentRegistry>, cluster: &Cluster) -> Self {
        let app = self.changed(|app| app.agents = agents);
        let served = app.clone();
        cluster.router().add(AGENTS, move |_: Body| serve_agents(served.clone()));
        app
    }
}

/// Serves [`AGENTS`].
async fn serve_agents(app: App) -> io::Result<Body> {
    Ok(Body::whole(serde_json::to_vec(&own_page(&app))?))
}

pub(crate) async fn agents(State(app): State<App>) -> Json<Value> {
    let own = own_page(&app);
    let Some(membership) = &app.membership else { return Json(answer(vec![own], &[])) };
    let members = membership.cluster.members();
    let others = members.iter().filter(|member| member.is_live() && member.facts.node != membership.cluster.node_id());
    let calls = others.map(|member| async {
        let page = membership.cluster.call_json::<_, AgentPage>(member, AGENTS, &json!({}), AGENTS_TIMEOUT).await;
        page.map_err(|_| member.facts.node.to_string())
    });
    let (mut pages, mut unresponsive) = (vec![own], Vec::new());
    for page in join_all(calls).await {
        match page {
            Ok(page) => pages.push(page),
            Err(node) => unresponsive.push(node),
        }
    }
    Json(answer(pages, &unresponsive))
}

fn own_page(app: &App) -> AgentPage {
    let now = app.env.clock.uptime();
    let listed = |agent: &KnownAgent| ListedAgent {
        id: agent.report.id.iter().map(|byte| format!("{byte:02x}")).collect(),
        host: agent.report.host.clone(),
        version: agent.report.version.clone(),
        address: agent.address.to_canonical().to_string(),
        node: app.info.id.clone(),
        connected: agent.is_connected(),
        seen_seconds: now.saturating_sub(agent.seen).as_secs_f64(),
        files: agent.report.files,
        unreadable_files: agent.report.unreadable_files,
        lag_bytes: agent.report.lag_bytes,
        lag_seconds: agent.report.lag_ms as f64 / 1e3,
        buffer_bytes: agent.report.buffer_bytes,
        gaps: agent.report.gaps,
        dropped_records: agent.report.dropped_records,
        acked_records: agent.report.acked_records,
    };
    page(app.agents.agents(now).iter().map(listed).collect())
}

/// The first agents of a list, those with problems first.
fn page(mut agents: Vec<ListedAgent>) -> AgentPage {
    let has_problem = |agent: &ListedAgent| {
        agent.gaps > 0 || agent.dropped_records > 0 || agent.unreadable_files > 0 || !agent.connected
    };
    agents.sort_by(|a, b| {
        let key = |agent: &ListedAgent| (!has_problem(agent), agent.host.clone(), agent.id.clone());
        b.lag_seconds.floor().total_cmp(&a.lag_seconds.floor()).then_with(|| key(a).cmp(&key(b)))
    });
    let count = agents.len();
    agents.truncate(LISTED_MAX);
    AgentPage { agents, count }
}

/// The agents of several nodes, each once: as the node describes it that has its newest report.
fn answer(pages: Vec<AgentPage>, unresponsive: &[String]) -> Value {
    let left_out: usize = pages.iter().map(|page| page.count.saturating_sub(page.agents.len())).sum();
    let mut newest: BTreeMap<String, ListedAgent> = BTreeMap::new();
    for agent in pages.into_iter().flat_map(|page| page.agents) {
        let is_newer = newest.get(&agent.id).is_none_or(|have| agent.seen_seconds < have.seen_seconds);
        if is_newer {
            newest.insert(agent.id.clone(), agent);
        }
    }
    let listed = page(newest.into_values().collect());
    json!({
        "agents": listed.agents,
        "count": listed.count + left_out,
        "unresponsive_nodes": unresponsive,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(id: &str, node: &str, seen_seconds: f64) -> ListedAgent {
        let (id, node) = (id.to_owned(), node.to_owned());
        ListedAgent { id, node, seen_seconds, connected: true, ..ListedAgent::default() }
    }

    #[test]
    fn an_agent_that_moved_is_listed_once_and_problems_come_first() {
        let slow = ListedAgent { lag_seconds: 90.0, ..agent("c", "n1", 1.0) };
        let lossy = ListedAgent { gaps: 1, ..agent("d", "n2", 1.0) };
        let first = page(vec![agent("a", "n1", 40.0), agent("b", "n1", 1.0), slow]);
        let second = page(vec![agent("a", "n2", 2.0), lossy]);
        let answer = answer(vec![first, second], &["n3".to_owned()]);
        let found: Vec<(&str, &str)> = answer["agents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|agent| (agent["id"].as_str().unwrap(), agent["node"].as_str().unwrap()))
            .collect();
        assert_eq!(found, [("c", "n1"), ("d", "n2"), ("a", "n2"), ("b", "n1")]);
        assert_eq!((&answer["count"], &answer["unresponsive_nodes"][0]), (&4.into(), &"n3".into()));
    }

    #[test]
    fn a_long_list_is_cut_and_counted() {
        let agents: Vec<ListedAgent> = (0..1_500).map(|at| agent(&at.to_string(), "n1", 1.0)).collect();
        let answer = answer(vec![page(agents)], &[]);
        assert_eq!((answer["agents"].as_array().unwrap().len(), &answer["count"]), (1_000, &1_500.into()));
    }
}
