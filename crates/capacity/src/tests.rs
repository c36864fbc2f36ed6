//! Plans whose values are computed by hand, and properties of all plans.

use bucksaw_model::{CpuQuota, Distribution};
use proptest::prelude::*;

use super::*;
use crate::planned_node::PlannedNode;

/// Costs that make the arithmetic easy.
pub(crate) fn calibration() -> Calibration {
    let question = |kind| QuestionCost {
        kind,
        fixed_seconds: 1e-3,
        queued_seconds_per_byte: 5e-11,
        cold_seconds_per_byte: 1e-9,
        cached_seconds_per_byte: 1e-10,
        cache_per_byte: 0.1,
        serial_share: 0.0,
        variation: 0.0,
    };
    let times = |requests_per_second| TimesAtLoad {
        requests_per_second,
        syncs_per_second: requests_per_second,
        commit_seconds: 0.0,
        latency: TimeHistogram { mean_seconds: 1e-4, bounds: vec![0.99e-4, 1e-4], counts: vec![0.0, 1.0] },
        sync: TimeHistogram { mean_seconds: 2e-3, bounds: vec![1.99e-3, 2e-3], counts: vec![0.0, 1.0] },
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
        base_cores: 0.0,
        disk_bytes_per_second: 2e8,
        accept: AcceptCost {
            seconds_per_byte: 1e-9,
            seconds_per_record: 1e-7,
            seconds_per_request: 1e-4,
            seconds_per_commit: 0.0,
        },
        requests: RequestTimes { quiet: times(10.0), busy: times(100.0) },
        store: StoreCost {
            seconds_per_byte: 5e-9,
            merge_seconds_per_byte: 0.0,
            stored_per_byte: 0.05,
            written_per_byte: 0.25,
        },
        scaling: ScalingCost { contention: 0.0, contention_max: 0.0, coherence: 0.0, coherence_max: 0.0 },
        questions: QuestionKind::ALL.map(question).to_vec(),
        base_memory_bytes: 5e7,
    }
}

pub(crate) fn input() -> CapacityInput {
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
            cpu_limit: None,
            memory_bytes: 16.0 * f64::from(1_u32 << 30),
            disk_bytes: 1e12,
            disk_bytes_per_second: 2e8,
            disk_write_limit: None,
            disk_read_seconds: 0.0,
            network_bytes_per_second: 1e8,
        },
        failed_nodes: 0,
        nodes: PlannedNodes::Least,
    }
}

/// The first figure of this name.
#[track_caller]
fn value(capacity: &Capacity, name: &str) -> f64 {
    capacity.figures.iter().find(|figure| figure.name == name).unwrap_or_else(|| panic!("no {name}")).value
}

#[track_caller]
fn check(capacity: &Capacity, name: &str, want: f64) {
    let found = value(capacity, name);
    let error = (found - want).abs() / want.abs().max(1e-12);
    assert!(error < 1e-6, "{name}: {found} instead of {want}");
}

/// Commits per second of 200 requests of 100 kB, which take 0.5 ms of data each, with a sync of 2 ms, in which 64 KiB were written.
fn commits_of_200_requests() -> f64 {
    let sync = 2e-3 - 65_536.0 / 2e8;
    let of = |commit: f64| 1.0 / (commit + (-200.0 * commit).exp() / 200.0);
    // A group in two segments of 16 MiB has two syncs.
    let segments = 200.0 * 1e5 / f64::from(16_u32 << 20);
    let first = of(sync / (1.0 - 200.0 * (5e-4 + segments * sync / 200.0)));
    of(sync * (1.0 + segments / first * (1.0 - first / 200.0)) / 0.9)
}

/// The nodes of a plan in which each has both roles.
#[track_caller]
fn nodes(capacity: &Capacity) -> u32 {
    assert_eq!(capacity.tiers.len(), 1);
    capacity.tiers[0].nodes
}

#[test]
fn a_single_node_has_the_whole_load() {
    let capacity = Capacity::of(&input(), &calibration()).unwrap();
    assert_eq!((nodes(&capacity), capacity.is_enough, capacity.separate_nodes), (1, true, Some((1, 1))));
    check(&capacity, "accepted at the peak", 2e7);
    // 1 ns per byte, 0.1 us per 200 bytes, 100 us per 100 kB: 2.5 ns per byte.
    check(&capacity, "CPU of accepting", 2e7 * 2.5e-9);
    check(&capacity, "CPU of gathering, encoding and merging", 2e7 * 5e-9);
    check(&capacity, "stored", 1e7 * 86_400.0 * 0.05);
    let commits = commits_of_200_requests();
    // Each writes the last page of the queue again.
    check(&capacity, "written to disk at the peak", 2e7 + commits * 4_096.0 + 2e7 * 0.25);
    check(&capacity, "received at the peak", 2e7);
    check(&capacity, "sent at the peak", 0.0);
    // 100 s at 10 MB/s. A batch of 10 s is new at each question, and half of one is in the queue, with half an open segment and the
    // text of half a second, in which a batch is gathered.
    let queued = 1e7 * 5.5 + f64::from(16_u32 << 20) / 2.0;
    let cpu = 1e-3 + queued * 5e-11 + (1e9 - queued - 1e8) * 1e-10 + 1e8 * 1e-9;
    check(&capacity, "CPU of a question 'word' over 100 s", cpu);
    let question = &capacity.questions[0];
    assert_eq!((question.node_bytes, question.cached_share), (1e9, 1.0));
    let in_use = (2e7 * 2.5e-9 + 0.1 * cpu) / 4.0 + 2e7 * 5e-9 / 4.0;
    let alone = 1e-3 + (cpu - 1e-3) / 4.0;
    assert!((question.mean_seconds / (alone / (1.0 - in_use)) - 1.0).abs() < 0.05, "{question:?}");
}

#[test]
fn copies_and_nodes_divide_the_load() {
    let input = CapacityInput { copies: 2, failed_nodes: 1, nodes: PlannedNodes::Both(5), ..input() };
    let capacity = Capacity::of(&input, &calibration()).unwrap();
    // Four of five nodes are up.
    check(&capacity, "accepted at the peak", 2e7 / 4.0);
    check(&capacity, "copied at the peak", 2e7 * 2.0 / 4.0);
    check(&capacity, "stored", 1e7 * 2.0 / 4.0 * 86_400.0 * 0.05);
    check(&capacity, "received at the peak", 5e6 + 5e6 * 0.75 + 5e6 * 0.15);
    // The fifth node is the lost one. Random choices take longer than an even plan.
    let least = 1e7 * 2.0 / 5.0 * 86_400.0 * 0.05 / (4.0 * f64::from(32_u32 << 20));
    let seconds = value(&capacity, "until the records of a lost node have all copies again") - 60.0;
    assert!((1.0..1.12).contains(&(seconds / least)), "{seconds} {least}");
}

#[test]
fn separate_roles_divide_the_work() {
    let nodes = PlannedNodes::Separate { ingest: 2, store: 4 };
    let capacity = Capacity::of(&CapacityInput { copies: 2, nodes, ..input() }, &calibration()).unwrap();
    let sizes = [TierSize { tier: Tier::Ingest, nodes: 2 }, TierSize { tier: Tier::Store, nodes: 4 }];
    assert_eq!(capacity.tiers, sizes);
    // Two ingest nodes accept 20 MB/s, four stores keep two copies of it.
    check(&capacity, "CPU of accepting", 1e7 * 2.5e-9);
    check(&capacity, "CPU of gathering, encoding and merging", 1e7 * 5e-9);
    let cores = |tier| {
        let of = |figure: &&PlanFigure| figure.tier == tier && figure.name == "CPU of all work";
        capacity.figures.iter().find(of).unwrap().value
    };
    assert!((cores(Tier::Ingest) / (1e7 * 2.5e-9) - 1.0).abs() < 1e-9);
    // Of 100 s at 5 MB/s, half of which another copy is, 6.75 s are in the queue, and a batch of 10 s is new.
    let search = 0.1 * (1e-3 + 16.875e6 * 5e-11 + 208.125e6 * 1e-10 + 25e6 * 1e-9);
    assert!((cores(Tier::Store) / (1e7 * 5e-9 + search) - 1.0).abs() < 1e-9);
    assert_eq!(capacity.limits.len(), 2 * Resource::ALL.len());
    assert_eq!(capacity.questions.len(), 1);
    let none = CapacityInput { failed_nodes: 1, nodes: PlannedNodes::Separate { ingest: 1, store: 4 }, ..input() };
    assert_eq!(Capacity::of(&none, &calibration()), Err(InputError::NoIngestNode { nodes: 1, failed: 1 }));
}

#[test]
fn costs_grow_by_the_scalability_law() {
    let mut costs = calibration();
    costs.scaling = ScalingCost { contention: 0.02, contention_max: 0.04, coherence: 0.001, coherence_max: 0.002 };
    let capacity = Capacity::of(&CapacityInput { nodes: PlannedNodes::Both(5), ..input() }, &costs).unwrap();
    check(&capacity, "CPU per byte, relative to that of a single node", 1.0 + 0.02 * 4.0 + 0.001 * 20.0);
    check(&capacity, "CPU of accepting", 2e7 / 5.0 * 2.5e-9 * 1.1);
    check(&capacity, "CPU of gathering, encoding and merging", 2e7 / 5.0 * 5e-9 * 1.1);
    assert!((costs.scaling.factor_max(5.0) - 1.2).abs() < 1e-12);
}

#[test]
fn requests_share_commits_under_load() {
    let mut costs = calibration();
    costs.accept.seconds_per_commit = 1e-3;
    let commits = commits_of_200_requests();
    assert!(commits < 190.0, "{commits}");
    let of = |ack_point| Capacity::of(&CapacityInput { ack_point, ..input() }, &costs).unwrap();
    check(&of(AckPoint::Synced), "CPU of accepting", 2e7 * 2.5e-9 + commits * 1e-3);
    check(&of(AckPoint::Stored), "CPU of accepting", 2e7 * 2.5e-9 + commits * 1e-3);
    check(&of(AckPoint::Written), "CPU of accepting", 2e7 * 2.5e-9);
}

#[test]
fn an_acknowledgement_takes_twice_as_long_at_its_knee_as_on_an_idle_node() {
    let of = |bytes_per_second| {
        let planned =
            CapacityInput { bytes_per_second, questions: Vec::new(), nodes: PlannedNodes::Both(1), ..input() };
        Capacity::of(&planned, &calibration()).unwrap()
    };
    let knee = value(&of(1e7), "load at which an acknowledgement takes twice as long");
    let ack = |bytes_per_second| value(&of(bytes_per_second), "acknowledgement, mean");
    let ratio = ack(1e7 * knee) / ack(1.0);
    assert!((ratio - 2.0).abs() < 0.01, "{knee} {ratio}");
}

#[test]
fn small_batches_are_merged() {
    let mut costs = calibration();
    costs.store.merge_seconds_per_byte = 2e-9;
    let of = |bytes_per_second, ack_point| {
        Capacity::of(&CapacityInput { bytes_per_second, ack_point, ..input() }, &costs).unwrap()
    };
    // Batches of 20 MB, of which four fit into a segment; of 2 MB; a full one; and one per request.
    for (rate, ack_point, merges) in [
        (1e6, AckPoint::Synced, 1.0),
        (1e5, AckPoint::Written, 3.0),
        (1e7, AckPoint::Synced, 0.0),
        (1e7, AckPoint::Stored, 5.0),
    ] {
        let capacity = of(rate, ack_point);
        check(&capacity, "merges of each byte", merges);
        check(&capacity, "CPU of gathering, encoding and merging", 2.0 * rate * (5e-9 + merges * 2e-9));
        let written = value(&capacity, "written to disk at the peak") - 2.0 * rate * (1.25 + merges * 0.05);
        let pages = written / 4_096.0 / (2.0 * rate / 1e5);
        assert!(
            if ack_point == AckPoint::Written { pages.abs() < 1e-6 } else { pages > 0.9 && pages <= 1.0 },
            "{pages}"
        );
    }
}

#[test]
fn requests_wait_for_cores_that_questions_use() {
    let of = |questions| Capacity::of(&CapacityInput { questions, ..input() }, &calibration()).unwrap();
    let (without, with) = (of(Vec::new()), of(input().questions));
    let share = value(&with, "CPU of questions") / 4.0;
    let more = value(&with, "acknowledgement, mean") - value(&without, "acknowledgement, mean");
    assert!((more - share * 3e-3).abs() < 1e-7, "{share} {more}");
}

#[test]
fn a_part_of_a_question_runs_on_one_core() {
    let mut costs = calibration();
    costs.questions.iter_mut().for_each(|cost| cost.serial_share = 0.25);
    let of = |costs: &Calibration| Capacity::of(&input(), costs).unwrap().questions.remove(0);
    let (even, question) = (of(&calibration()), of(&costs));
    assert_eq!(question.cpu_seconds, even.cpu_seconds);
    // A quarter on one core and the rest on four takes 7/16 instead of a quarter; the first millisecond is on one core anyway.
    let text = question.cpu_seconds - 1e-3;
    let ratio = (1e-3 + text * 7.0 / 16.0) / (1e-3 + text / 4.0);
    assert!((question.mean_seconds / even.mean_seconds / ratio - 1.0).abs() < 0.01, "{question:?} {even:?}");
    assert!((QuestionCost::serial_share_of(7.0 / 16.0, 4.0) - 0.25).abs() < 1e-12);
    assert_eq!(QuestionCost::serial_share_of(0.1, 4.0), 0.0);
    assert_eq!(QuestionCost::serial_share_of(2.0, 4.0), 1.0);
    assert_eq!(QuestionCost::serial_share_of(0.5, 1.0), 0.0);
}

#[test]
fn the_first_question_over_a_new_batch_waits_for_one_block() {
    let mut input = CapacityInput { nodes: PlannedNodes::Both(1), ..input() };
    (input.bytes_per_second, input.questions[0].range_seconds) = (1e6, 120.0);
    let calibration = calibration();
    let node = PlannedNode::of_both_roles(&input, &calibration, 1);
    let of = |cold_bytes| node.question_demand(&input.questions[0], cold_bytes);
    // A block of 16 MB takes 1.6 ms, less than a quarter of all text: 0.3 ms of the queue and 11.4 ms of blocks.
    let cached = of(0.0);
    assert!((cached.seconds - (1e-3 + (cached.cpu_seconds - 1e-3) / 4.0)).abs() < 1e-9, "{cached:?}");
    // 10 MB at 1 ns on one core take longer than all work on four.
    let first = of(1e7);
    assert!((first.seconds - 11e-3).abs() < 1e-9, "{first:?}");
    // Of two blocks and more, the longest one counts.
    assert!((of(3.2e7).seconds - 17e-3).abs() < 1e-9, "{:?}", of(3.2e7));
}

/// A node of four cores that may use a quarter of one, and stores 5 MB/s of which it uses a tenth.
fn limited() -> CapacityInput {
    let mut limited = CapacityInput {
        bytes_per_second: 5e6,
        peak_factor: 1.0,
        questions: Vec::new(),
        nodes: PlannedNodes::Both(1),
        ..input()
    };
    limited.node.cpu_limit = Some(CpuLimit { cores: 0.25, period_seconds: 0.1 });
    limited
}

/// The share of the time in which the gathers of that node use up the limit, `used` of which is for other work than accepting.
/// Ten seconds of text take 250 ms of CPU, of which 23.75 ms fit into each period: the first and last hardly stop anything.
fn gathering(used: f64) -> f64 {
    let quota = CpuQuota { period_seconds: 0.1, open_seconds: 0.02375 };
    let elapsed = quota.alone(&Distribution::constant(0.25).unwrap()).unwrap().mean();
    let ratio = (elapsed - 0.25) / (0.25 * 0.7625 / 0.2375);
    assert!((0.8..1.0).contains(&ratio), "{ratio}");
    0.025 / (0.2375 - used) * ratio
}

#[test]
fn gathers_within_a_period_use_up_no_cpu_limit() {
    let mean = |cpu_limit| {
        let node = NodeSize { cpu_limit, ..limited().node };
        // Ten seconds of text take 10 ms of CPU.
        let input = CapacityInput { bytes_per_second: 2e5, node, ..limited() };
        value(&Capacity::of(&input, &calibration()).unwrap(), "acknowledgement, mean")
    };
    let (with, without) = (mean(limited().node.cpu_limit), mean(None));
    assert!((with / without - 1.0).abs() < 0.01, "{with} {without}");
}

#[test]
fn gathers_use_up_a_cpu_limit_and_delay_requests() {
    let without = Capacity::of(
        &CapacityInput { node: NodeSize { cpu_limit: None, ..limited().node }, ..limited() },
        &calibration(),
    );
    let (without, with) = (without.unwrap(), Capacity::of(&limited(), &calibration()).unwrap());
    // Accepting takes 12.5 ms of a second, and gathers 25 of the 237.5 that are left. Then the node runs for 23.75 ms of each period, and
    // is stopped for the other 76.25: 76 of 100 requests wait half of that, and those that it meets on their way all of it.
    let ack = value(&without, "acknowledgement, mean");
    let background = gathering(0.0);
    let want = ack + background * (0.7625 * 0.07625 / 2.0 + ack / 0.1 * 0.07625);
    let found = value(&with, "acknowledgement, mean");
    assert!((found / want - 1.0).abs() < 0.02, "{found} {want} {ack}");
    assert!(value(&with, "acknowledgement, p99") > 0.05 && value(&without, "acknowledgement, p99") < 0.01);
    let full = with.limits.iter().find(|limit| limit.resource == Resource::Cpu).unwrap();
    assert!((full.utilisation - 0.0375 / 0.25).abs() < 1e-9, "{full:?}");
}

#[test]
fn a_question_beside_a_gather_uses_up_a_cpu_limit_sooner() {
    // None of these questions uses up the limit alone.
    let asked = PlannedQuestion { kind: QuestionKind::Word, per_second: 40.0, range_seconds: 1.0 };
    let of = |input: CapacityInput| Capacity::of(&input, &calibration()).unwrap();
    let with = of(CapacityInput { questions: vec![asked], ..limited() });
    let without = of(CapacityInput { node: NodeSize { cpu_limit: None, ..limited().node }, ..limited() });
    let ack = value(&without, "acknowledgement, mean");
    let searching = value(&with, "CPU of questions");
    let (left, background) = (0.2375, gathering(searching));
    // A gather and a question use a half each of what is left.
    let both = searching / (left / 2.0);
    assert!((0.1..0.9).contains(&both), "{both}");
    let stopped = |open: f64| (1.0 - open) * (1.0 - open) * 0.1 / 2.0 + ack / 0.1 * (1.0 - open) * 0.1;
    let want = ack + background * ((1.0 - both) * stopped(left) + both * stopped(left / 2.0));
    let found = value(&with, "acknowledgement, mean");
    assert!((found / want - 1.0).abs() < 0.02, "{found} {want} {ack}");
}

#[test]
fn questions_and_gathers_that_use_up_a_cpu_limit_at_the_same_time_count_once() {
    let asked = PlannedQuestion { kind: QuestionKind::Word, per_second: 0.5, range_seconds: 400.0 };
    let with = Capacity::of(&CapacityInput { questions: vec![asked], ..limited() }, &calibration()).unwrap();
    let without = CapacityInput { node: NodeSize { cpu_limit: None, ..limited().node }, ..limited() };
    let ack = value(&Capacity::of(&without, &calibration()).unwrap(), "acknowledgement, mean");
    let (searching, seconds) = (value(&with, "CPU of questions"), with.questions[0].cpu_seconds);
    let (left, background) = (0.2375, gathering(searching));
    let stopped = |open: f64| (1.0 - open) * (1.0 - open) * 0.1 / 2.0 + ack * (1.0 - open);
    let both = (searching / (left / 2.0)).min(1.0);
    let gathers = background * ((1.0 - both) * stopped(left) + both * stopped(left / 2.0));
    let quota = CpuQuota { period_seconds: 0.1, open_seconds: 0.1 * (left - 0.025) };
    let question = quota.alone(&Distribution::constant(seconds).unwrap()).unwrap().mean() - seconds;
    let alone = (0.5 * question / (1.0 - left)).min(1.0) * (1.0 - background);
    assert!(background > 0.15 && alone > 0.2, "{background} {alone}");
    let (want, found) = (ack + gathers + alone * stopped(left), value(&with, "acknowledgement, mean"));
    assert!((found / want - 1.0).abs() < 0.02, "{found} {want} {ack}");
}

#[test]
fn short_questions_run_at_full_speed_within_a_cpu_limit_and_long_ones_do_not() {
    let question = |range_seconds| {
        let asked = PlannedQuestion { kind: QuestionKind::Word, per_second: 1e-3, range_seconds };
        let of = |cpu_limit| {
            let node = NodeSize { cpu_limit, cores: 1.0, ..limited().node };
            let planned = CapacityInput { bytes_per_second: 1e5, questions: vec![asked], node, ..limited() };
            Capacity::of(&planned, &calibration()).unwrap().questions.remove(0)
        };
        (of(None), of(limited().node.cpu_limit))
    };
    let (short, limited) = question(10.0);
    assert!(short.cpu_seconds < 5e-3 && limited.mean_seconds < 1.5 * short.mean_seconds, "{short:?} {limited:?}");
    let (long, limited) = question(86_400.0);
    assert!(long.cpu_seconds > 0.5, "{long:?}");
    assert!((limited.mean_seconds / long.mean_seconds / 4.0 - 1.0).abs() < 0.05, "{long:?} {limited:?}");
}

#[test]
fn questions_use_up_a_cpu_limit_and_delay_requests() {
    let of = |range_seconds| {
        let asked = PlannedQuestion { kind: QuestionKind::Word, per_second: 0.5, range_seconds };
        Capacity::of(&CapacityInput { questions: vec![asked], ..limited() }, &calibration()).unwrap()
    };
    let ack = |capacity: &Capacity| value(capacity, "acknowledgement, mean");
    let (short, long) = (of(1.0), of(100.0));
    assert!(short.questions[0].cpu_seconds < 2e-3 && long.questions[0].cpu_seconds > 0.05, "{long:?}");
    let without = Capacity::of(&limited(), &calibration()).unwrap();
    // A question within the quota stops nothing; one that takes several periods does.
    assert!((ack(&short) / ack(&without) - 1.0).abs() < 0.1, "{} {}", ack(&short), ack(&without));
    assert!(ack(&long) > 1.5 * ack(&without), "{} {}", ack(&long), ack(&without));
}

/// A count of a word in the limited node.
fn limited_question(calibration: &Calibration, per_second: f64, range_seconds: f64) -> (f64, QuestionFigures) {
    let asked = PlannedQuestion { kind: QuestionKind::Word, per_second, range_seconds };
    let mut capacity = Capacity::of(&CapacityInput { questions: vec![asked], ..limited() }, calibration).unwrap();
    (value(&capacity, "acknowledgement, mean"), capacity.questions.remove(0))
}

#[test]
fn other_questions_stretch_one_within_a_cpu_limit() {
    let mut costs = calibration();
    costs.store.seconds_per_byte = 0.0;
    let rare = PlannedQuestion { kind: QuestionKind::Word, per_second: 1e-6, range_seconds: 1.0 };
    let others = PlannedQuestion { kind: QuestionKind::Regex, per_second: 1.0, range_seconds: 100.0 };
    let of = |questions| Capacity::of(&CapacityInput { questions, ..limited() }, &costs).unwrap();
    let (alone, beside) = (of(vec![rare]), of(vec![rare, others]));
    // Accepting takes 12.5 ms of the 250 of each second, and the questions a part of the rest.
    let stretch = 0.2375 / (0.2375 - value(&beside, "CPU of questions"));
    let found = beside.questions[0].mean_seconds / alone.questions[0].mean_seconds;
    assert!(stretch > 1.2 && (found / stretch - 1.0).abs() < 0.01, "{found} {stretch}");
}

#[test]
fn a_question_waits_where_a_gather_has_used_up_the_cpu_limit() {
    let mut free = calibration();
    free.store.seconds_per_byte = 0.0;
    let mean = |calibration: &Calibration| limited_question(calibration, 1e-6, 1.0).1.mean_seconds;
    // A gather runs for a tenth of the time, in which three of four questions wait for 40 ms.
    let more = mean(&calibration()) - mean(&free);
    assert!((0.002..0.005).contains(&more), "{more}");
}

#[test]
fn questions_within_a_cpu_limit_leave_requests_a_time() {
    for step in 1..20 {
        let (ack, question) = limited_question(&calibration(), 0.5, f64::from(step) * 0.05);
        assert!(ack.is_finite() && question.mean_seconds.is_finite(), "{step} {question:?}");
    }
}

#[test]
fn a_cpu_limit_above_the_cores_has_no_effect() {
    let mut same = input();
    same.node.cpu_limit = Some(CpuLimit { cores: 4.0, period_seconds: 0.1 });
    let (with, without) = (Capacity::of(&same, &calibration()), Capacity::of(&input(), &calibration()));
    assert_eq!(with.unwrap(), without.unwrap());
}

#[test]
fn a_slow_disk_delays_cold_questions() {
    let mut slow = CapacityInput { nodes: PlannedNodes::Both(1), ..input() };
    slow.node.memory_bytes = 0.0001 * f64::from(1_u32 << 30);
    let fast = Capacity::of(&slow, &calibration()).unwrap().questions.remove(0);
    slow.node.disk_read_seconds = 0.01;
    let question = Capacity::of(&slow, &calibration()).unwrap().questions.remove(0);
    // 942 MB are stored: 59 blocks, 15 for each core, two reads each. A tenth of a question per second waits for them.
    let wait = 15.0 * 2.0 * 0.01 * (1.0 - question.cached_share);
    let free = 1.0 - (2e7 * 2.5e-9 + 0.1 * question.cpu_seconds) / 4.0 - 2e7 * 5e-9 / 4.0;
    let want = (fast.mean_seconds * free + wait) / (free - 0.1 * wait);
    assert!((question.mean_seconds / want - 1.0).abs() < 0.02, "{} {want}", question.mean_seconds);
}

#[test]
fn questions_that_wait_for_the_disk_are_limited_by_it() {
    let mut slow = CapacityInput { nodes: PlannedNodes::Both(1), ..input() };
    slow.node.memory_bytes = 0.0001 * f64::from(1_u32 << 30);
    slow.node.disk_read_seconds = 0.01;
    let mean = |factor: f64| {
        let mut input = slow.clone();
        input.questions.iter_mut().for_each(|question| question.per_second *= factor);
        Capacity::of(&input, &calibration()).unwrap().questions[0].mean_seconds
    };
    let read = |rate: f64| {
        let mut input = slow.clone();
        input.questions.iter_mut().for_each(|question| question.per_second *= rate);
        let capacity = Capacity::of(&input, &calibration()).unwrap();
        let disk = capacity.limits.iter().find(|limit| limit.resource == Resource::DiskBandwidth).unwrap().utilisation;
        (value(&capacity, "read from disk"), disk)
    };
    let ((once, little), (twice, more)) = (read(1.0), read(2.0));
    assert!(once > 0.0 && (twice / once - 2.0).abs() < 1e-9, "{once} {twice}");
    assert!(((more - little) * slow.node.disk_bytes_per_second / once - 1.0).abs() < 1e-9, "{little} {more}");
    // Each waits for 0.3 s, whatever the CPU has to do: a tenth of a question per second is little, and four are too many.
    assert!(mean(20.0) > 2.0 * mean(1.0) && mean(40.0).is_infinite(), "{} {} {}", mean(1.0), mean(20.0), mean(40.0));
}

#[test]
fn the_least_number_of_nodes_is_enough_and_one_less_is_not() {
    let mut planned = CapacityInput { bytes_per_second: 1e9, copies: 2, failed_nodes: 1, ..input() };
    let capacity = Capacity::of(&planned, &calibration()).unwrap();
    assert!(capacity.is_enough && nodes(&capacity) > 5, "{capacity:?}");
    planned.nodes = PlannedNodes::Both(nodes(&capacity) - 1);
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
    let at_limit = Capacity::of(&CapacityInput { nodes: PlannedNodes::Both(1), ..planned }, &calibration()).unwrap();
    assert!((at_limit.limits[0].utilisation - 1.0).abs() < 1e-3, "{:?}", at_limit.limits[0]);
}

#[test]
fn questions_without_a_cached_block_cost_more() {
    let mut small = CapacityInput { nodes: PlannedNodes::Both(1), ..input() };
    small.node.memory_bytes = 0.9 * f64::from(1_u32 << 30);
    let question = Capacity::of(&small, &calibration()).unwrap().questions.remove(0);
    // A 64th of the memory for a tenth of 942 MB.
    let queued = 1e7 * 5.5 + f64::from(16_u32 << 20) / 2.0;
    let cached = 0.9 * f64::from(1_u32 << 30) / 64.0 / ((1e9 - queued) / 10.0);
    assert!((question.cached_share - cached).abs() < 1e-9, "{question:?}");
    let cold = (1.0 - cached) * (1e9 - queued) + cached * 1e8;
    let cpu = 1e-3 + queued * 5e-11 + (1e9 - queued - cold) * 1e-10 + cold * 1e-9;
    assert!((question.cpu_seconds - cpu).abs() < 1e-6, "{question:?} {cpu}");
    assert!(question.p99_seconds > question.p50_seconds);
}

#[test]
fn a_target_takes_more_nodes() {
    let mut planned = input();
    let wide = PlannedQuestion { kind: QuestionKind::Regex, per_second: 0.01, range_seconds: 86_400.0 };
    planned.questions = vec![wide];
    let without = nodes(&Capacity::of(&planned, &calibration()).unwrap());
    planned.targets.question_p99_seconds = Some(10.0);
    let capacity = Capacity::of(&planned, &calibration()).unwrap();
    assert!(capacity.is_enough && nodes(&capacity) > without, "{capacity:?} {without}");
    assert!(capacity.questions[0].p99_seconds <= 10.0);
}

#[test]
fn an_overloaded_node_has_no_response_time() {
    let mut planned = CapacityInput { nodes: PlannedNodes::Both(1), bytes_per_second: 1e12, ..input() };
    let capacity = Capacity::of(&planned, &calibration()).unwrap();
    assert!(!capacity.is_enough && capacity.questions[0].p99_seconds.is_infinite() && capacity.load_curve.is_empty());
    planned.nodes = PlannedNodes::Least;
    assert_eq!(nodes(&Capacity::of(&planned, &calibration()).unwrap()), 1_000);
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
        let limit = |cores, period_seconds| Some(CpuLimit { cores, period_seconds });
        assert!(refused(&|input| input.node.cpu_limit = limit(bad, 0.1)).to_string().contains("the CPU limit"));
        assert!(refused(&|input| input.node.cpu_limit = limit(1.0, bad)).to_string().contains("the period"));
        assert!(refused(&|input| input.node.disk_write_limit = Some(bad)).to_string().contains("the limit of writes"));
    }
    assert!(refused(&|input| input.peak_factor = 0.5).to_string().contains("at least 1"));
    assert!(refused(&|input| input.copies = 0).to_string().contains("copies"));
    let few = refused(&|input| (input.copies, input.failed_nodes, input.nodes) = (2, 1, PlannedNodes::Both(2)));
    assert_eq!(few, InputError::TooFewNodes { nodes: 2, copies: 2, failed: 1 });
    let mut costs = calibration();
    costs.questions.clear();
    assert_eq!(Capacity::of(&input(), &costs), Err(InputError::NotMeasured(QuestionKind::Word)));
}

#[test]
fn calibrations_are_checked() {
    assert_eq!(calibration().check(), Ok(()));
    let mut costs = calibration();
    costs.version = 1;
    assert_eq!(costs.check(), Err(CalibrationError::Version { found: 1 }));
    let mut costs = calibration();
    costs.requests.busy.sync.mean_seconds = f64::NAN;
    assert_eq!(costs.check(), Err(CalibrationError::Value { name: "requests.busy.sync.mean_seconds" }));
    for (bounds, counts) in [(vec![2e-3, 1e-3], vec![1.0, 1.0]), (vec![1e-3], vec![0.0]), (vec![1e-3], Vec::new())] {
        let mut costs = calibration();
        (costs.requests.busy.sync.bounds, costs.requests.busy.sync.counts) = (bounds, counts);
        assert_eq!(costs.check(), Err(CalibrationError::Histogram { name: "requests.busy.sync" }));
    }
    let mut costs = calibration();
    costs.questions[0].serial_share = 1.5;
    assert_eq!(costs.check(), Err(CalibrationError::Share { name: "serial_share" }));
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
        cores in 1.0..64.0_f64, limit in prop::option::of((0.01..64.0_f64, 0.001..1.0_f64)), disk in 1e9..1e14_f64,
        write_limit in prop::option::of(1e5..1e10_f64),
    ) {
        let mut planned = input();
        planned.bytes_per_second = rate;
        (planned.peak_factor, planned.line_bytes, planned.request_bytes) = (peak, line, request);
        (planned.retention_seconds, planned.copies, planned.failed_nodes) = (retention, copies, failed);
        planned.questions = vec![PlannedQuestion { kind: QuestionKind::Needle, per_second, range_seconds: range }];
        (planned.node.cores, planned.node.disk_bytes) = (cores, disk);
        planned.node.disk_write_limit = write_limit;
        planned.node.cpu_limit = limit.map(|(cores, period_seconds)| CpuLimit { cores, period_seconds });
        let capacity = Capacity::of(&planned, &calibration()).unwrap();
        for figure in &capacity.figures {
            prop_assert!(figure.value >= 0.0, "{figure:?}");
        }
        for limit in &capacity.limits {
            prop_assert!(limit.utilisation >= 0.0 && limit.load_factor > 0.0, "{limit:?}");
        }
        prop_assert_eq!(capacity.is_enough, capacity.shortfalls.is_empty());
        let is_overloaded = capacity.limits.iter().any(|limit| limit.utilisation > 0.8);
        let ack = capacity.figures.iter().find(|figure| figure.name == "acknowledgement, mean").map(|figure| figure.value);
        prop_assert!(is_overloaded || ack.is_some_and(f64::is_finite), "{:?}", ack);
        prop_assert!(is_overloaded || capacity.questions.iter().all(|question| question.mean_seconds.is_finite()));
        planned.bytes_per_second = rate * 2.0;
        prop_assert!(nodes(&Capacity::of(&planned, &calibration()).unwrap()) >= nodes(&capacity));
    }
}
