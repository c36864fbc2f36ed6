//! `bucksaw plan` with the built-in calibration, and with one that it measures.

use serde_json::Value;

use crate::process::{bucksaw, run, words};

fn json(arguments: &str) -> Value {
    let found = words(&format!("plan {arguments} -o json"));
    assert_eq!((found.code, found.err.as_str()), (Some(0), ""));
    serde_json::from_slice(&found.out).unwrap()
}

fn figure(plan: &Value, name: &str) -> f64 {
    let figures = plan["figures"].as_array().unwrap();
    figures.iter().find(|figure| figure["name"] == name).unwrap()["value"].as_f64().unwrap()
}

#[test]
fn a_plan_has_nodes_figures_questions_and_limits() {
    let found = words("plan --rate 1MB --cores 2 --memory 8GB");
    assert_eq!((found.code, found.err.as_str()), (Some(0), ""));
    let text = found.text();
    assert!(text.starts_with("1 node: enough\n"), "{text}");
    for part in ["costs: measured on ", "\ningest\n", "\nstore\n", "QUESTION  ", "RESOURCE  ", "CPU of accepting", "█"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let explained = words("plan --rate 1MB --cores 2 --memory 8GB --explain");
    assert!(
        explained
            .text()
            .contains("    = p·(a + b/l + (q + g·G)/m)·k; a request has g group commits with p = 3.0 MB/s, "),
        "{}",
        explained.text()
    );
}

#[test]
fn a_plan_grows_with_the_load() {
    let small = json("--rate 100MB --replication-factor 2 --cores 4 --memory 16GB");
    let large = json("--rate 1000MB --replication-factor 2 --cores 4 --memory 16GB");
    assert!(
        large["tiers"][0]["nodes"].as_u64() > small["tiers"][0]["nodes"].as_u64() && small["failed_nodes"] == 1,
        "{small}"
    );
    let of = |rate: &str| {
        figure(&json(&format!("--rate {rate} --nodes 4 --cores 64 --memory 16GB")), "accepted at the peak")
    };
    assert_eq!((of("4MB"), of("4MB/s")), (3_145_728.0, 3_145_728.0));
    assert_eq!(of("345600MB/d"), 3_145_728.0);
}

#[test]
fn separate_roles_have_figures_of_their_own() {
    let plan = json("--rate 10MB --ingest-nodes 3 --store-nodes 4 --replication-factor 2 --cores 4 --memory 16GB");
    assert_eq!(plan["tiers"].to_string(), r#"[{"nodes":3,"tier":"ingest node"},{"nodes":4,"tier":"store node"}]"#);
    let tiers_of = |name: &str| -> Vec<String> {
        let figures = plan["figures"].as_array().unwrap().iter().filter(|figure| figure["name"] == name);
        figures.map(|figure| figure["tier"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(tiers_of("CPU of accepting"), ["ingest node"]);
    assert_eq!(tiers_of("stored"), ["store node"]);
    assert_eq!(tiers_of("CPU of all work"), ["ingest node", "store node"]);
    let text = words("plan --rate 1MB --ingest-nodes 2 --store-nodes 2 --cores 2 --memory 8GB").text().to_owned();
    assert!(text.starts_with("2 ingest nodes and 2 store nodes: enough\n"), "{text}");
    assert!(text.contains("\ningest node: ingest\n") && text.contains("\nstore node: search\n"), "{text}");
}

#[test]
fn nodes_that_are_not_enough_fail() {
    let found = words("plan --rate 10GB --nodes 1 --cores 1 --memory 1GB");
    assert_eq!((found.code, found.err.as_str()), (Some(1), ""));
    assert!(found.text().starts_with("1 node: not enough\n- CPU of a node is in use to "), "{}", found.text());
}

#[test]
fn wrong_input_is_named() {
    let check = |arguments: &str, want: &str| {
        let found = words(&format!("plan {arguments}"));
        assert!(found.code == Some(2) && found.err.contains(want), "{arguments}: {}", found.err);
    };
    check("", "--rate");
    check("--rate 1MB --question word:1", "kind:per-hour:range");
    check("--rate 1MB --nodes 1 --replication-factor 2", "too few");
    check("--rate 1MB --ingest-nodes 2", "--store-nodes");
    check("--rate 1MB --ingest-nodes 1 --store-nodes 3 --failed-nodes 1", "no ingest node would be left");
    check("--rate 1MB --sample a --calibration b", "omit one of them");
    let missing = words("plan --rate 1MB --calibration /nonexistent/file");
    assert!(missing.code == Some(1) && missing.err.contains("cannot read /nonexistent/file"), "{}", missing.err);
    let small = crate::process::file("one line\n");
    let found = run(&mut bucksaw(["plan", "--rate", "1MB", "--sample", small.path().to_str().unwrap()]));
    assert!(found.code == Some(1) && found.err.contains("less than 1 MB of lines"), "{}", found.err);
}
