//! `forward --kubernetes` against a stub of the API server: labels of pods on records.

use std::collections::BTreeMap;
use std::fs;

use bucksaw_fixtures::{KubernetesStub, stub_pod};
use serde_json::{Value, json};

use super::{records, text};
use crate::containers::runtime_log::{RuntimeFormat, RuntimeLog};
use crate::tailing::TailedDir;
use crate::tailing::status::{DOCUMENT, metrics, names, status};
use crate::wait::wait_until;

const LABEL: &str = "k8s.pod.label.app";

/// A node, an agent that watches a stub, and the stub.
struct LabeledPods {
    tailed: TailedDir,
    stub: KubernetesStub,
    /// The address of the agent's listener.
    agent: String,
}

impl LabeledPods {
    /// Nothing of this runs yet but the node and the stub.
    fn new(stub: KubernetesStub, arguments: &[&str]) -> Self {
        let url = stub.url();
        let fixed = ["--listen", "127.0.0.1:0", "--kubernetes-node", "node-1", "--kubernetes-api", &url];
        Self { tailed: TailedDir::new(&[&fixed[..], arguments].concat()), stub, agent: String::new() }
    }

    fn start_agent(&mut self) {
        self.tailed.start_agent("var/log/pods/*/*/*.log");
        self.agent = self.tailed.listener();
    }

    /// The log of a container of a pod, whose id is made of its name.
    fn log(&self, pod: &str) -> RuntimeLog {
        let path = self.tailed.logs().join(format!("var/log/pods/shop_{pod}_uid-{pod}/web/0.log"));
        RuntimeLog::new(RuntimeFormat::Cri, &path)
    }

    fn kubernetes(&self) -> Value {
        status(&self.agent)["kubernetes"].clone()
    }

    /// The number of records with this label `app`.
    fn labelled(&self, app: &str) -> usize {
        records(&self.tailed, &format!("{LABEL}={app}")).len()
    }
}

fn pod(name: &str, app: &str) -> Value {
    stub_pod("shop", name, &format!("uid-{name}"), "node-1", &[("app", app), ("app.kubernetes.io/name", "till")])
}

fn write_lines(log: &mut RuntimeLog, what: &str, count: usize) {
    (0..count).for_each(|number| log.write_line("stdout", &format!("{what} {number}")));
}

#[test]
fn records_have_the_labels_of_their_pod() {
    let stub = KubernetesStub::start().unwrap();
    let mut known = pod("cart-7d9f-x", "cart");
    known["metadata"]["labels"]["pod-template-hash"] = json!("7d9f");
    known["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-7d9f", "controller": true }]);
    stub.put(known.clone());
    let mut pods = LabeledPods::new(stub, &[]);
    let mut log = pods.log("cart-7d9f-x");
    write_lines(&mut log, "before", 10);
    pods.start_agent();
    pods.tailed.wait_count(10);
    // The server answers at once, so that nothing was sent without.
    wait_until("the labels are there", || pods.labelled("cart") as u64 + unlabelled(&pods) == 10);
    write_lines(&mut log, "after", 1);
    wait_until("the labels are there", || pods.labelled("cart") as u64 + unlabelled(&pods) == 11);
    let [record] = records(&pods.tailed, "\"after 0\"").try_into().unwrap();
    for (name, want) in [
        ("k8s.deployment.name", "cart"),
        ("service.name", "till"),
        ("k8s.container.name", "web"),
        ("k8s.pod.uid", "uid-cart-7d9f-x"),
        ("k8s.node.name", "node-1"),
        ("k8s.pod.label.app.kubernetes.io_name", "till"),
    ] {
        assert_eq!(text(&record["labels"][name]), want, "{name} of {record}");
    }

    // A label changes. The agent does not tell when it has seen that.
    known["metadata"]["labels"]["app"] = json!("basket");
    pods.stub.put(known);
    wait_until("a line has the new label", || {
        write_lines(&mut log, "changed", 1);
        pods.labelled("basket") > 0
    });
    // A deleted pod may have written more than was read.
    pods.stub.delete("shop", "cart-7d9f-x");
    wait_until("the deletion is known", || pods.kubernetes()["deleted_pods"] == 1);
    write_lines(&mut log, "last words", 1);
    wait_until("the last words are stored", || {
        records(&pods.tailed, "\"last words\" k8s.pod.label.app=basket").len() == 1
    });
    let kubernetes = pods.kubernetes();
    assert_eq!((&kubernetes["synced"], &kubernetes["pods"]), (&json!(true), &json!(0)), "{kubernetes}");
    pods.tailed.wait_count(log.lines().len());
    assert_eq!(pods.tailed.node.count("") as usize, log.lines().len());
    let document = fs::read_to_string(DOCUMENT).unwrap();
    for name in names(&metrics(&pods.agent)) {
        assert!(document.contains(&format!("`{name}`")), "docs/forward.md does not list {name}");
    }
}

fn unlabelled(pods: &LabeledPods) -> u64 {
    pods.kubernetes()["unlabelled_records"].as_u64().unwrap_or_default()
}

#[test]
fn a_file_may_be_there_before_its_pod_is_known() {
    let stub = KubernetesStub::start().unwrap();
    let mut pods = LabeledPods::new(stub, &["--kubernetes-labels", "app*"]);
    pods.start_agent();
    wait_until("the pods are watched", || pods.kubernetes()["synced"] == true);
    let mut log = pods.log("late");
    write_lines(&mut log, "early", 20);
    // A busy machine may take longer than the agent waits: then the first lines are counted.
    wait_until("the lines wait", || pods.kubernetes()["waiting_files"] == 1 || unlabelled(&pods) > 0);
    pods.stub.put(pod("late", "late"));
    pods.tailed.wait_count(20);
    wait_until("each line is labelled or counted", || pods.labelled("late") as u64 + unlabelled(&pods) == 20);
    wait_until("later lines have the labels", || {
        write_lines(&mut log, "later", 1);
        records(&pods.tailed, &format!("later {LABEL}=late")).len() > 1
    });
    pods.tailed.wait_count(log.lines().len());
    assert_eq!(pods.tailed.node.count("") as usize, log.lines().len());
    let said = pods.tailed.stop_agent();
    assert!(said.contains("the server knows no pod of this node"), "{said}");
}

#[test]
fn a_batch_keeps_its_labels_through_kills_whatever_the_server_says_later() {
    let stub = KubernetesStub::start().unwrap();
    stub.put(pod("db-0", "db"));
    stub.set_away(true);
    let mut pods = LabeledPods::new(stub, &[]);
    pods.tailed.node.kill();
    let mut log = pods.log("db-0");
    write_lines(&mut log, "unlabelled", 30);
    pods.start_agent();
    // The server is away: lines wait for a moment, and then go on.
    wait_until("the lines are read", || unlabelled(&pods) == 30);
    let kubernetes = pods.kubernetes();
    assert!(kubernetes["synced"] == false && kubernetes["error"].is_string(), "{kubernetes}");
    pods.stub.set_away(false);
    wait_until("the pods are watched", || pods.kubernetes()["synced"] == true);
    write_lines(&mut log, "labelled", 30);
    wait_until("the lines are read", || status(&pods.agent)["read"]["records"] == 60);
    pods.tailed.kill_agent();
    // All of it is in the buffer now, and another answer of the server changes nothing of it.
    pods.stub.put(pod("db-0", "changed"));
    pods.start_agent();
    wait_until("the pods are watched", || pods.kubernetes()["synced"] == true);
    pods.tailed.node.restart();
    pods.tailed.wait_count(60);
    let mut stored = BTreeMap::new();
    for record in records(&pods.tailed, "") {
        *stored.entry((text(&record["line"]), text(&record["labels"][LABEL]))).or_insert(0) += 1;
    }
    let want = log.lines().iter().map(|line| {
        let app = if line.line.starts_with("labelled") { "db" } else { "" };
        ((line.line.clone(), app.to_owned()), 1)
    });
    assert_eq!(stored, want.collect());
}
