//! `bucksaw plan --sample`: costs that are measured with nodes of its own.

use std::io::Write as _;

use serde_json::Value;

use crate::node::{TestServer, bucksaw, run};

/// Lines of which some words are frequent.
fn sample() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for at in 0..30_000_u32 {
        let status = if at % 19 == 0 { "refused" } else { "accepted" };
        let id = at.wrapping_mul(2_654_435_761);
        writeln!(file, "2026-11-27T10:00:00Z GET /item/{} {status} id={id:08x} took {} ms", at % 977, id % 97).unwrap();
    }
    file
}

#[test]
fn costs_are_measured_and_the_files_removed() {
    let (sample, scratch) = (sample(), tempfile::tempdir().unwrap());
    let saved = scratch.path().join("costs.toml");
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let arguments = ["plan", "--rate", "5MB", "--cores", "2", "--memory", "8GB", "-o", "json"].map(str::to_owned);
    let measure = [
        "--sample".to_owned(),
        path(sample.path()),
        "--scratch-dir".to_owned(),
        path(scratch.path()),
        "--save-calibration".to_owned(),
        path(&saved),
    ];
    let found = run(&mut bucksaw(arguments.iter().chain(&measure)), b"");
    let said = String::from_utf8_lossy(&found.stderr).into_owned();
    assert_eq!((found.status.code(), said.as_str()), (Some(0), ""));
    let plan: Value = serde_json::from_slice(&found.stdout).unwrap();
    let costs = &plan["calibration"];
    let cost = |pointer: &str| costs.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let positive = [
        "/store/stored_per_byte",
        "/disk_bytes_per_second",
        "/requests/quiet/latency/mean_seconds",
        "/requests/quiet/sync/mean_seconds",
        "/requests/busy/latency/mean_seconds",
        "/requests/busy/sync/mean_seconds",
        "/base_memory_bytes",
    ];
    for pointer in positive {
        assert!(cost(pointer) > 0.0, "{pointer}: {costs}");
    }
    // Beside other load, one of the costs may be fitted as 0.
    let accept = ["byte", "record", "request", "commit"].map(|unit| cost(&format!("/accept/seconds_per_{unit}")));
    assert!(accept.iter().all(|cost| *cost >= 0.0) && accept.iter().sum::<f64>() > 0.0, "{costs}");
    assert_eq!(costs["questions"].as_array().map(Vec::len), Some(4));
    let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["costs.toml"]);
    // The saved costs give the same plan.
    let again = ["--calibration".to_owned(), path(&saved), "--line-bytes".to_owned(), "64".to_owned()];
    let again = run(&mut bucksaw(arguments.iter().chain(&again)), b"");
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["calibration"], *costs);
}

#[test]
fn a_running_node_is_compared_with_its_costs() {
    let node = TestServer::start(&[]);
    let addr = format!("http://{}", node.address("http"));
    let plan = ["plan", "--live", "--interval", "2s", "--addr", &addr, "-o", "json"];
    let load = ["generate", "--rate", "5000", "--count", "20000", "--to", &addr];
    let found = std::thread::scope(|scope| {
        let sending = scope.spawn(|| run(&mut bucksaw(load), b""));
        let found = run(&mut bucksaw(plan), b"");
        assert!(sending.join().unwrap().status.success());
        found
    });
    let said = String::from_utf8_lossy(&found.stderr);
    assert_eq!((found.status.code(), &*said), (Some(0), ""));
    let live: Value = serde_json::from_slice(&found.stdout).unwrap();
    let of = |name: &str| live["nodes"][0][name].as_f64().unwrap_or_default();
    assert!(
        of("accepted_bytes_per_second") > 0.0 && of("cpu_cores") > 0.0 && of("cpu_cores_predicted") > 0.0,
        "{live}"
    );
    assert_eq!((live["nodes"].as_array().map(Vec::len), &live["not_observed"]), (Some(1), &Value::Array(Vec::new())));
    let text = run(&mut bucksaw(["plan", "--live", "--interval", "300ms", "--addr", &addr]), b"");
    assert!(String::from_utf8_lossy(&text.stdout).starts_with("NODE  "), "{text:?}");
}
