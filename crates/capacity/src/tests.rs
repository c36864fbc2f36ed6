//! Plans whose values are computed by hand, and properties of all plans.

use proptest::prelude::*;

use super::*;

/// Costs that make the arithmetic easy.
pub(crate) fn calibration() -> Calibration {
    let question = |kind| QuestionCost {
        kind,
        fixed_seconds: 1e-3,
        cold_seconds_per_byte: 1e-9,
        cached_seconds_per_byte: 1e-10,
        cache_per_byte: 0.1,
        variation: 0.0,
    };
    Calibration {
        version: Calibration::VERSION,
        machine: MachineDescription {
            processor: "one".to_owned(),
            cores: 2,
            memory_bytes: 16 << 30,
            program: "0".to_owned(),
            measured: "2026-11-27".to_owned(),
            sample: "log".to_owned(),
        },
        accept: AcceptCost { seconds_per_byte: 1e-9, seconds_per_record: 1e-7, seconds_per_request: 1e-4 },
        sync: SyncTime { mean_seconds: 2e-3, variation: 0.0 },
        store: StoreCost { seconds_per_byte: 5e-9, stored_per_byte: 0.05, written_per_byte: 0.25 },
        questions: QuestionKind::ALL.map(question).to_vec(),
        base_memory_bytes: 5e7,
    }
}

fn input() -> CapacityInput {
    CapacityInput {
        bytes_per_second: 1e7,
        peak_factor: 2.0,
        line_bytes: 200.0,
        request_bytes: 1e5,
        ack_point: AckPoint::Synced,
        retention_seconds: 86_400.0,
        copies: 1,
        questions: vec![PlannedQuestion { kind: QuestionKind::Word, per_second: 0.1, range_seconds: 100.0 }],
        targets: Targets::default(),
        node: NodeSize {
            cores: 4.0,
            memory_bytes: 16.0 * f64::from(1_u32 << 30),
            disk_bytes: 1e12,
            disk_bytes_per_second: 2e8,
            network_bytes_per_second: 1e8,
        },
        failed_nodes: 0,
        nodes: None,
    }
}

#[track_caller]
fn check(capacity: &Capacity, name: &str, want: f64) {
    let figure = capacity.figures.iter().find(|figure| figure.name == name).unwrap_or_else(|| panic!("no {name}"));
    let error = (figure.value - want).abs() / want.abs().max(1e-12);
    assert!(error < 1e-6, "{name}: {} instead of {want}", figure.value);
}

#[test]
fn a_single_node_has_the_whole_load() {
    let capacity = Capacity::of(&input(), &calibration()).unwrap();
    assert_eq!((capacity.nodes, capacity.is_enough, capacity.separate_nodes), (1, true, Some((1, 1))));
    check(&capacity, "accepted at the peak", 2e7);
    // 1 ns per byte, 0.1 us per 200 bytes, 100 us per 100 kB: 2.5 ns per byte.
    check(&capacity, "CPU of accepting", 2e7 * 2.5e-9);
    check(&capacity, "CPU of gathering, encoding and merging", 2e7 * 5e-9);
    check(&capacity, "stored", 1e7 * 86_400.0 * 0.05);
    check(&capacity, "written to disk at the peak", 2e7 + 2e7 * 0.25);
    check(&capacity, "received at the peak", 2e7);
    check(&capacity, "sent at the peak", 0.0);
    // 100 s at 10 MB/s, all of it in the block cache.
    check(&capacity, "CPU of a question 'word' over 100 s", 1e-3 + 1e9 * 1e-10);
    let question = &capacity.questions[0];
    assert_eq!((question.node_bytes, question.cached_share), (1e9, 1.0));
    let in_use = (2e7 * 2.5e-9 + 0.1 * 0.101) / 4.0 + 2e7 * 5e-9 / 4.0;
    let alone = 1e-3 + 0.1 / 4.0;
    assert!((question.mean_seconds / (alone / (1.0 - in_use)) - 1.0).abs() < 0.05, "{question:?}");
}

#[test]
fn copies_and_nodes_divide_the_load() {
    let input = CapacityInput { copies: 2, failed_nodes: 1, nodes: Some(5), ..input() };
    let capacity = Capacity::of(&input, &calibration()).unwrap();
    // Four of five nodes are up.
    check(&capacity, "accepted at the peak", 2e7 / 4.0);
    check(&capacity, "copied at the peak", 2e7 * 2.0 / 4.0);
    check(&capacity, "stored", 1e7 * 2.0 / 4.0 * 86_400.0 * 0.05);
    check(&capacity, "received at the peak", 5e6 + 5e6 * 0.75 + 5e6 * 0.15);
    let stored = 1e7 * 2.0 / 4.0 * 86_400.0 * 0.05;
    let rate = f64::from(32_u32 << 20);
    check(&capacity, "until the records of a lost node have all copies again", 60.0 + stored / (3.0 * rate));
}

#[test]
fn the_least_number_of_nodes_is_enough_and_one_less_is_not() {
    let mut planned = CapacityInput { bytes_per_second: 1e9, copies: 2, failed_nodes: 1, ..input() };
    let capacity = Capacity::of(&planned, &calibration()).unwrap();
    assert!(capacity.is_enough && capacity.nodes > 5, "{}", capacity.nodes);
    planned.nodes = Some(capacity.nodes - 1);
    let fewer = Capacity::of(&planned, &calibration()).unwrap();
    assert!(!fewer.is_enough && !fewer.shortfalls.is_empty());
}

#[test]
fn the_first_limit_is_the_resource_that_is_full_first() {
    let capacity = Capacity::of(&input(), &calibration()).unwrap();
    let first = &capacity.limits[0];
    assert_eq!(first.resource, Resource::Network);
    assert!((first.load_factor - 5.0).abs() < 1e-3, "{first:?}");
    let planned = CapacityInput { bytes_per_second: 1e7 * first.load_factor, ..input() };
    let at_limit = Capacity::of(&CapacityInput { nodes: Some(1), ..planned }, &calibration()).unwrap();
    assert!((at_limit.limits[0].utilisation - 1.0).abs() < 1e-3, "{:?}", at_limit.limits[0]);
}

#[test]
fn questions_without_a_cached_block_cost_more() {
    let mut small = CapacityInput { nodes: Some(1), ..input() };
    small.node.memory_bytes = 0.9 * f64::from(1_u32 << 30);
    let question = Capacity::of(&small, &calibration()).unwrap().questions.remove(0);
    // A 64th of the memory for a tenth of 1 GB.
    let cached = 0.9 * f64::from(1_u32 << 30) / 64.0 / 1e8;
    assert!((question.cached_share - cached).abs() < 1e-9, "{question:?}");
    assert!((question.cpu_seconds - (1e-3 + 1e9 * (cached * 1e-10 + (1.0 - cached) * 1e-9))).abs() < 1e-6);
    assert!(question.p99_seconds > question.p50_seconds);
}

#[test]
fn a_target_takes_more_nodes() {
    let mut planned = input();
    let wide = PlannedQuestion { kind: QuestionKind::Regex, per_second: 0.01, range_seconds: 86_400.0 };
    planned.questions = vec![wide];
    let without = Capacity::of(&planned, &calibration()).unwrap().nodes;
    planned.targets.question_p99_seconds = Some(10.0);
    let capacity = Capacity::of(&planned, &calibration()).unwrap();
    assert!(capacity.is_enough && capacity.nodes > without, "{} {without}", capacity.nodes);
    assert!(capacity.questions[0].p99_seconds <= 10.0);
}

#[test]
fn an_overloaded_node_has_no_response_time() {
    let mut planned = CapacityInput { nodes: Some(1), bytes_per_second: 1e12, ..input() };
    let capacity = Capacity::of(&planned, &calibration()).unwrap();
    assert!(!capacity.is_enough && capacity.questions[0].p99_seconds.is_infinite() && capacity.load_curve.is_empty());
    planned.nodes = None;
    assert_eq!(Capacity::of(&planned, &calibration()).unwrap().nodes, 1_000);
}

#[test]
fn input_without_sense_is_refused() {
    let refused = |change: &dyn Fn(&mut CapacityInput)| {
        let mut planned = input();
        change(&mut planned);
        Capacity::of(&planned, &calibration()).unwrap_err()
    };
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refused(&|input| input.bytes_per_second = bad).to_string().contains("the rate"));
        assert!(refused(&|input| input.node.cores = bad).to_string().contains("cores"));
        assert!(refused(&|input| input.questions[0].per_second = bad).to_string().contains("question"));
    }
    assert!(refused(&|input| input.peak_factor = 0.5).to_string().contains("at least 1"));
    assert!(refused(&|input| input.copies = 0).to_string().contains("copies"));
    let few = refused(&|input| (input.copies, input.failed_nodes, input.nodes) = (2, 1, Some(2)));
    assert_eq!(few, InputError::TooFewNodes { nodes: 2, copies: 2, failed: 1 });
    let mut costs = calibration();
    costs.questions.clear();
    assert_eq!(Capacity::of(&input(), &costs), Err(InputError::NotMeasured(QuestionKind::Word)));
}

#[test]
fn calibrations_are_checked() {
    assert_eq!(calibration().check(), Ok(()));
    let mut costs = calibration();
    costs.version = 2;
    assert_eq!(costs.check(), Err(CalibrationError::Version { found: 2 }));
    let mut costs = calibration();
    costs.sync.mean_seconds = f64::NAN;
    assert_eq!(costs.check(), Err(CalibrationError::Value { name: "sync.mean_seconds" }));
    let mut costs = calibration();
    costs.questions.push(costs.questions[0]);
    assert_eq!(costs.check(), Err(CalibrationError::Repeated(QuestionKind::Needle)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Any sensible input has a plan, whose shares and times are numbers of at least 0, and more load takes no fewer nodes.
    #[test]
    fn every_input_has_a_plan(
        rate in 1.0..1e10_f64, peak in 1.0..10.0_f64, line in 1.0..1e5_f64, request in 1.0..1e7_f64,
        retention in 1.0..1e8_f64, copies in 1_u32..4, failed in 0_u32..3, per_second in 1e-6..100.0_f64, range in 1.0..1e7_f64,
        cores in 0.1..64.0_f64, disk in 1e9..1e14_f64,
    ) {
        let mut planned = input();
        planned.bytes_per_second = rate;
        (planned.peak_factor, planned.line_bytes, planned.request_bytes) = (peak, line, request);
        (planned.retention_seconds, planned.copies, planned.failed_nodes) = (retention, copies, failed);
        planned.questions = vec![PlannedQuestion { kind: QuestionKind::Needle, per_second, range_seconds: range }];
        (planned.node.cores, planned.node.disk_bytes) = (cores, disk);
        let capacity = Capacity::of(&planned, &calibration()).unwrap();
        for figure in &capacity.figures {
            prop_assert!(figure.value >= 0.0, "{figure:?}");
        }
        for limit in &capacity.limits {
            prop_assert!(limit.utilisation >= 0.0 && limit.load_factor > 0.0, "{limit:?}");
        }
        prop_assert_eq!(capacity.is_enough, capacity.shortfalls.is_empty());
        planned.bytes_per_second = rate * 2.0;
        prop_assert!(Capacity::of(&planned, &calibration()).unwrap().nodes >= capacity.nodes);
    }
}
