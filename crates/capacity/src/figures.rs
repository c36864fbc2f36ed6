//! The figures of a plan, each with its formula.

use std::borrow::Cow;

use bucksaw_model::{Distribution, LeaseRace, NodeFailures, Rumour, SharedServers};

use crate::calibration::QuestionCost;
use crate::figure::{FigureUnit, PlanFigure, Section};
use crate::input::AckPoint;
use crate::limits::least_factor;
use crate::planned_node::{
    BACKGROUND_SHARE, BURST_SECONDS, BURST_STORED_SHARE, DISK_FREE_SHARE, PlannedNode, SEGMENT_TEXT_BYTES,
};
use crate::repair::{LOST_AFTER_SECONDS, repair, repair_seconds};
use crate::segment_rotation::{QUEUE_SEGMENT_BYTES, QUEUE_SEGMENT_SECONDS};
use crate::write_path::CORE_WAIT_SECONDS;

/// The interval in which a node sends news of members, in seconds, and to how many others.
const GOSSIP_SECONDS: f64 = 0.2;
const GOSSIP_FANOUT: u32 = 3;

/// The pause of a store after a gather, or after it found no segment in any queue, in seconds.
const FETCH_PAUSE_SECONDS: f64 = 0.02;

/// All figures of a node.
pub(crate) fn figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
    let mut figures = Vec::new();
    if node.tier.has_ingest() {
        figures.extend(ingest_figures(node));
    }
    if node.tier.has_store() {
        figures.extend(store_figures(node));
        figures.extend(search_figures(node));
    }
    figures.push(scaling_figure(node));
    figures.push(cpu_figure(node));
    figures.extend(network_figures(node));
    if node.tier.has_ingest() {
        figures.push(disk_full_figure(node));
    }
    if node.tier.has_store() {
        figures.extend(failure_figures(node));
    }
    figures.into_iter().map(|figure| PlanFigure { tier: node.tier, ..figure }).collect()
}

fn ingest_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
    use Section::Ingest;
    let (input, cost) = (node.input, &node.calibration.accept);
    let accepted = node.accepted();
    let nodes = node.ingest_nodes;
    let ack = node.ack();
    let of = |value: &dyn Fn(&Distribution) -> f64| ack.as_ref().map_or(f64::INFINITY, value);
    let idle_ack = node.at(0.0).ack_mean();
    let mean_of = |time: Option<Distribution>| time.map_or(f64::INFINITY, |time| time.mean());
    let data = input.request_bytes / input.node.disk_bytes_per_second;
    let write = ("w", mean_of(node.write_time()), FigureUnit::Seconds);
    let ack_formula = match input.ack_point {
        AckPoint::Written => {
            "w, its latency at this load and CPU / (1 - CPU of accepting), + W with the probability u of a question"
        }
        AckPoint::Synced => {
            "w + W with the probability u of a question + rest of the running commit + own commit, each a sync, or two or three if a queue segment begins or ends, and the data of its requests"
        }
        AckPoint::Stored => {
            "w + W with the probability u of a question + rest of the running commit + own commit, each a sync, or two or three if a queue segment begins or ends, and the data of its requests, + m·S, the gather"
        }
    };
    let symbols = [
        write,
        ("W", CORE_WAIT_SECONDS, FigureUnit::Seconds),
        ("u", node.searching_share(), FigureUnit::Share),
        ("syncs", mean_of(node.group_commit().map(|commits| commits.sync)), FigureUnit::Seconds),
        ("data of a request", data, FigureUnit::Seconds),
        ("requests", node.requests(), FigureUnit::PerSecond),
        ("m", input.request_bytes, FigureUnit::Bytes),
        ("S", node.gather_cost(), FigureUnit::SecondsPerByte),
    ];
    let used = match input.ack_point {
        AckPoint::Written => 3,
        AckPoint::Synced => 6,
        AckPoint::Stored => 8,
    };
    let mut symbols: Vec<_> = symbols.into_iter().take(used).collect();
    let mut ack_formula = Cow::Borrowed(ack_formula);
    if input.node.disk_write_limit.is_some() && input.ack_point != AckPoint::Written {
        let delays = if input.ack_point == AckPoint::Stored { "2·D" } else { "D" };
        let text = format!(" + {delays}, for which the limit of writes stops it after other writes in the same 0.1 s");
        ack_formula.to_mut().push_str(&text);
        symbols.push(("D", mean_of(node.write_delay()), FigureUnit::Seconds));
    }
    if let Some(limit) = input.node.effective_limit() {
        ack_formula.to_mut().push_str(
            "; with the probability B of a gather or merge, which uses up the CPU limit, sooner while a question runs too, or of a question \
             that does, all of it only in the first part of each period T",
        );
        symbols.push(("B", node.limited_background_share(), FigureUnit::Share));
        symbols.push(("T", limit.period_seconds, FigureUnit::Seconds));
    }
    let by_size = accepted * QUEUE_SEGMENT_SECONDS >= QUEUE_SEGMENT_BYTES;
    let (segments, _) = node.queue_segments();
    vec![
        PlanFigure::new(
            Ingest,
            "accepted at the peak",
            accepted,
            FigureUnit::BytesPerSecond,
            "L·f / n",
            &[
                ("L", input.bytes_per_second * node.factor, FigureUnit::BytesPerSecond),
                ("f", input.peak_factor, FigureUnit::Number),
                ("n", nodes, FigureUnit::Number),
            ],
        ),
        PlanFigure::new(
            Ingest,
            "CPU of accepting",
            node.accept_cores(),
            FigureUnit::Cores,
            "p·(a + b/l + (q + g·G)/m)·k; a request has g group commits",
            &[
                ("p", accepted, FigureUnit::BytesPerSecond),
                ("a", cost.seconds_per_byte, FigureUnit::SecondsPerByte),
                ("b", cost.seconds_per_record, FigureUnit::Seconds),
                ("l", input.line_bytes, FigureUnit::Bytes),
                ("q", cost.seconds_per_request, FigureUnit::Seconds),
                ("g", node.commits_per_request(), FigureUnit::Number),
                ("G", cost.seconds_per_commit, FigureUnit::Seconds),
                ("m", input.request_bytes, FigureUnit::Bytes),
                ("k", node.calibration.scaling.factor(nodes), FigureUnit::Number),
            ],
        ),
        PlanFigure::new(
            Ingest,
            "acknowledgement, mean",
            of(&Distribution::mean),
            FigureUnit::Seconds,
            ack_formula.clone(),
            &symbols,
        ),
        PlanFigure::new(
            Ingest,
            "acknowledgement, p50",
            of(&|ack| ack.quantile(0.5)),
            FigureUnit::Seconds,
            ack_formula.clone(),
            &symbols,
        ),
        PlanFigure::new(
            Ingest,
            "acknowledgement, p99",
            of(&|ack| ack.quantile(0.99)),
            FigureUnit::Seconds,
            ack_formula,
            &symbols,
        ),
        PlanFigure::new(
            Ingest,
            "until a record is found, p99",
            of(&|ack| ack.quantile(0.99)),
            FigureUnit::Seconds,
            "acknowledgement: a search reads the queue",
            &[],
        ),
        PlanFigure::new(
            Ingest,
            "load at which an acknowledgement takes twice as long",
            least_factor(|factor| node.at(factor).ack_mean() >= 2.0 * idle_ack),
            FigureUnit::Number,
            "relative to the planned load; least x with ack(x) = 2·ack(0)",
            &[],
        ),
        PlanFigure::new(
            Ingest,
            "queue segments closed",
            segments,
            FigureUnit::PerSecond,
            if by_size { "p / s, by size" } else { "1 / t, by age" },
            &[
                ("p", accepted, FigureUnit::BytesPerSecond),
                ("s", QUEUE_SEGMENT_BYTES, FigureUnit::Bytes),
                ("t", QUEUE_SEGMENT_SECONDS, FigureUnit::Seconds),
            ],
        ),
    ]
}

fn store_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
    use Section::Store;
    let (input, cost) = (node.input, &node.calibration.store);
    let copied = ("c", node.copied(), FigureUnit::BytesPerSecond);
    let cores = ("cores", input.node.cpu(), FigureUnit::Cores);
    let per_byte = ("S", node.store_cost(), FigureUnit::SecondsPerByte);
    let sustained =
        BACKGROUND_SHARE * input.node.cpu() / node.store_cost() / f64::from(input.copies) * node.store_nodes;
    let gathers = node.gathers();
    let (_, segment) = node.queue_segments();
    let age = (segment / node.accepted_by_one()).min(QUEUE_SEGMENT_SECONDS);
    let response = gathers.as_ref().and_then(SharedServers::response);
    let stored = response.map_or(f64::INFINITY, |response| age + response.quantile(0.99));
    let per_second = gathers.as_ref().map_or(f64::INFINITY, |gathers| gathers.arrivals_per_second);
    let gather = gathers.as_ref().map_or(f64::INFINITY, |gathers| gathers.service.mean());
    let stores = node.store_nodes;
    let race = LeaseRace {
        stores: stores as u32,
        segments_per_second: per_second,
        busy_seconds: gather + FETCH_PAUSE_SECONDS,
        vain_seconds: FETCH_PAUSE_SECONDS,
    };
    vec![
        PlanFigure::new(
            Store,
            "until a record is in a stored segment, p99, at most",
            stored,
            FigureUnit::Seconds,
            "age of a queue segment + p99 of M/G/c with the gathers of all stores",
            &[
                ("age", age, FigureUnit::Seconds),
                ("segments of all nodes", per_second, FigureUnit::PerSecond),
                ("c", stores, FigureUnit::Number),
                ("gather", gather, FigureUnit::Seconds),
            ],
        ),
        PlanFigure::new(
            Store,
            "rounds over the queues in vain, per segment that a store takes",
            race.vain_per_segment().unwrap_or(f64::INFINITY),
            FigureUnit::Number,
            "about (c - i·(gather + v)) / (1 + i·v), the price of no coordinator: all idle stores ask, and one gets the lease",
            &[
                ("c", stores, FigureUnit::Number),
                ("i", per_second, FigureUnit::PerSecond),
                ("gather", gather, FigureUnit::Seconds),
                ("v", FETCH_PAUSE_SECONDS, FigureUnit::Seconds),
            ],
        ),
        PlanFigure::new(
            Store,
            "copied at the peak",
            node.copied(),
            FigureUnit::BytesPerSecond,
            "L·f·r / n",
            &[
                ("L", input.bytes_per_second * node.factor, FigureUnit::BytesPerSecond),
                ("f", input.peak_factor, FigureUnit::Number),
                ("r", f64::from(input.copies), FigureUnit::Number),
                ("n", node.store_nodes, FigureUnit::Number),
            ],
        ),
        PlanFigure::new(
            Store,
            "merges of each byte",
            node.merges(),
            FigureUnit::Number,
            "log₄(segment / batch), rounded down: a merge combines at least 4 batches that fit into a segment",
            &[("segment", SEGMENT_TEXT_BYTES, FigureUnit::Bytes), ("batch", node.batch_bytes(), FigureUnit::Bytes)],
        ),
        PlanFigure::new(
            Store,
            "CPU of gathering, encoding and merging",
            node.store_cores(),
            FigureUnit::Cores,
            "c·S; S = (a + M·b)·k, gathered once and merged M times",
            &[
                copied,
                per_byte,
                ("a", cost.seconds_per_byte, FigureUnit::SecondsPerByte),
                ("M", node.merges(), FigureUnit::Number),
                ("b", cost.merge_seconds_per_byte, FigureUnit::SecondsPerByte),
                ("k", node.calibration.scaling.factor(node.store_nodes), FigureUnit::Number),
            ],
        ),
        PlanFigure::new(
            Store,
            "stored",
            node.stored_bytes(),
            FigureUnit::Bytes,
            "c/f·T·z",
            &[
                copied,
                ("f", input.peak_factor, FigureUnit::Number),
                ("T", input.retention_seconds, FigureUnit::Seconds),
                ("z", cost.stored_per_byte, FigureUnit::Share),
            ],
        ),
        PlanFigure::new(
            Store,
            "disk, with room for a peak of an hour",
            (node.stored_bytes() + node.burst_bytes()) / (1.0 - DISK_FREE_SHARE),
            FigureUnit::Bytes,
            "(stored + c·t·u) / (1 - free)",
            &[
                copied,
                ("t", BURST_SECONDS, FigureUnit::Seconds),
                ("u", BURST_STORED_SHARE, FigureUnit::Share),
                ("free", DISK_FREE_SHARE, FigureUnit::Share),
            ],
        ),
        PlanFigure::new(
            Store,
            "written to disk at the peak",
            node.written(),
            FigureUnit::BytesPerSecond,
            "r·(m + g·4096) + c·w; a group commit writes the last page again",
            &[
                ("r", node.requests(), FigureUnit::PerSecond),
                ("m", input.request_bytes, FigureUnit::Bytes),
                ("g", node.commits_per_request(), FigureUnit::Number),
                copied,
                ("w", node.written_per_byte(), FigureUnit::Number),
            ],
        ),
        PlanFigure::new(
            Store,
            "memory without load, with a full block cache and the index",
            node.calibration.base_memory_bytes + node.cache_bytes() + node.index_bytes(),
            FigureUnit::Bytes,
            "base + cache + index",
            &[
                ("base", node.calibration.base_memory_bytes, FigureUnit::Bytes),
                ("cache", node.cache_bytes(), FigureUnit::Bytes),
                ("index", node.index_bytes(), FigureUnit::Bytes),
            ],
        ),
        PlanFigure::new(
            Store,
            "rate of the cluster that is stored while questions never pause",
            sustained,
            FigureUnit::BytesPerSecond,
            "g·cores·n / (S·r): a larger backlog than 2 GiB is stored without yielding to questions",
            &[
                ("g", BACKGROUND_SHARE, FigureUnit::Share),
                cores,
                ("n", node.store_nodes, FigureUnit::Number),
                per_byte,
                ("r", f64::from(input.copies), FigureUnit::Number),
            ],
        ),
    ]
}

fn search_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
    use Section::Search;
    let cores = ("cores", node.input.node.cpu(), FigureUnit::Cores);
    let in_use = ("a", node.accept_cores(), FigureUnit::Cores);
    let search = ("s", node.search_cores(), FigureUnit::Cores);
    let background = (node.store_cores() / node.input.node.cpu()).min(BACKGROUND_SHARE);
    let stretch_formula = match node.input.node.effective_limit() {
        None => "1 / (1 - (a + s)/cores - b - d); questions that wait for the disk keep their threads",
        Some(_) => {
            "1 / (1 - s/(cores - a - cores·b) - d): all but other questions is in the times within the CPU limit"
        }
    };
    let mut figures = vec![
        PlanFigure::new(
            Search,
            "CPU of questions",
            node.search_cores(),
            FigureUnit::Cores,
            "sum of rate·CPU of each question",
            &[],
        ),
        PlanFigure::new(
            Search,
            "read from disk",
            node.read(),
            FigureUnit::BytesPerSecond,
            "sum of rate·bytes of blocks, of questions for whose blocks the cache has no room",
            &[],
        ),
        PlanFigure::new(
            Search,
            "stretch of response times by other work",
            node.stretch(),
            FigureUnit::Number,
            stretch_formula,
            &[
                in_use,
                search,
                cores,
                ("b", background, FigureUnit::Share),
                ("d", node.disk_wait_share(), FigureUnit::Share),
            ],
        ),
    ];
    if !node.input.questions.is_empty() {
        let idle = node.at_questions(0.0).stretch();
        figures.push(PlanFigure::new(
            Search,
            "rate of questions at which they take twice as long",
            least_factor(|factor| node.at_questions(factor).stretch() >= 2.0 * idle),
            FigureUnit::Number,
            "relative to the planned rate; least x with stretch(x) = 2·stretch(0)",
            &[],
        ));
    }
    for question in &node.input.questions {
        let cost = node.calibration.question(question.kind);
        let part = |value: &dyn Fn(&QuestionCost) -> f64| cost.map_or(f64::INFINITY, value);
        figures.push(PlanFigure::new(
            Search,
            format!("CPU of a question '{}' over {} s", question.kind, question.range_seconds),
            node.mean_question_work(question).cpu_seconds,
            FigureUnit::Seconds,
            "F + q·Q + (B - c)·H + c·C, with the text in the queue q, and in stored blocks B, of which c is not in the cache",
            &[
                ("F", part(&|cost| cost.fixed_seconds), FigureUnit::Seconds),
                ("q", node.queued_range_bytes(question.range_seconds), FigureUnit::Bytes),
                ("Q", part(&|cost| cost.queued_seconds_per_byte), FigureUnit::SecondsPerByte),
                ("B", node.stored_range_bytes(question.range_seconds), FigureUnit::Bytes),
                ("c", node.mean_cold_bytes(question), FigureUnit::Bytes),
                ("H", part(&|cost| cost.cached_seconds_per_byte), FigureUnit::SecondsPerByte),
                ("C", part(&|cost| cost.cold_seconds_per_byte), FigureUnit::SecondsPerByte),
            ],
        ));
    }
    figures
}

fn scaling_figure(node: &PlannedNode<'_>) -> PlanFigure {
    let scaling = &node.calibration.scaling;
    let nodes = if node.tier.has_store() { node.store_nodes } else { node.ingest_nodes };
    PlanFigure::new(
        if node.tier.has_store() { Section::Store } else { Section::Ingest },
        "CPU per byte, relative to that of a single node",
        scaling.factor(nodes),
        FigureUnit::Number,
        "1 + σ·(n - 1) + κ·n·(n - 1), the scalability law; with the bounds of the fit at most M",
        &[
            ("σ", scaling.contention, FigureUnit::Number),
            ("κ", scaling.coherence, FigureUnit::Number),
            ("n", nodes, FigureUnit::Number),
            ("M", scaling.factor_max(nodes), FigureUnit::Number),
        ],
    )
}

fn cpu_figure(node: &PlannedNode<'_>) -> PlanFigure {
    PlanFigure::new(
        if node.tier.has_store() { Section::Search } else { Section::Ingest },
        "CPU of all work",
        node.used_cores(),
        FigureUnit::Cores,
        "base + accepting + storing + questions",
        &[
            ("base", node.calibration.base_cores, FigureUnit::Cores),
            ("accepting", node.accept_cores(), FigureUnit::Cores),
            ("storing", node.store_cores(), FigureUnit::Cores),
            ("questions", node.search_cores(), FigureUnit::Cores),
        ],
    )
}

fn network_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
    let accepted = ("p", node.accepted(), FigureUnit::BytesPerSecond);
    let gathered = ("g", node.copied() / f64::from(node.input.copies), FigureUnit::BytesPerSecond);
    let copies = ("r", f64::from(node.input.copies), FigureUnit::Number);
    let nodes = ("n", node.store_nodes, FigureUnit::Number);
    let file = ("u", BURST_STORED_SHARE, FigureUnit::Share);
    let formula = "p + g·(1 - 1/n) + g·(r - 1)·u";
    vec![
        PlanFigure::new(
            Section::Network,
            "received at the peak",
            node.received(),
            FigureUnit::BytesPerSecond,
            formula,
            &[accepted, gathered, nodes, copies, file],
        ),
        PlanFigure::new(
            Section::Network,
            "sent at the peak",
            node.sent(),
            FigureUnit::BytesPerSecond,
            "p·(1 - 1/n) + g·(r - 1)·u",
            &[accepted, nodes, gathered, copies, file],
        ),
    ]
}

fn disk_full_figure(node: &PlannedNode<'_>) -> PlanFigure {
    let free = (node.input.node.disk_bytes * (1.0 - DISK_FREE_SHARE) - node.stored_bytes()).max(0.0);
    let mean = node.accepted() / node.input.peak_factor;
    PlanFigure::new(
        Section::Failure,
        "until the disk is full if no store works, at the mean rate",
        free / mean,
        FigureUnit::Seconds,
        "(disk·(1 - free) - stored) / (p/f): the queue keeps the text as it is",
        &[
            ("disk", node.input.node.disk_bytes, FigureUnit::Bytes),
            ("free", DISK_FREE_SHARE, FigureUnit::Share),
            ("stored", node.stored_bytes(), FigureUnit::Bytes),
            ("p", node.accepted(), FigureUnit::BytesPerSecond),
            ("f", node.input.peak_factor, FigureUnit::Number),
        ],
    )
}

fn failure_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
    use Section::Failure;
    let mut figures = Vec::new();
    let nodes = node.store_nodes as u32;
    let copies = node.input.copies;
    let rumour = Rumour { nodes, fanout: GOSSIP_FANOUT, loss: 0.0, round_seconds: GOSSIP_SECONDS };
    let failures = NodeFailures { nodes, copies };
    figures.push(PlanFigure::new(
        Failure,
        "until all nodes know of a new or failed one",
        rumour.seconds().unwrap_or(0.0),
        FigureUnit::Seconds,
        "rounds of a rumour that reaches f nodes per round and sender, each of g; about ln n / ln(1 + f) + ln n / f",
        &[
            ("g", GOSSIP_SECONDS, FigureUnit::Seconds),
            ("n", f64::from(nodes), FigureUnit::Number),
            ("f", f64::from(GOSSIP_FANOUT), FigureUnit::Number),
        ],
    ));
    figures.push(PlanFigure::new(
        Failure,
        "records without a copy if as many stores fail at once as there are copies",
        failures.unavailable_share(copies).unwrap_or(1.0),
        FigureUnit::Share,
        "r! / (n·(n - 1)…(n - r + 1))",
        &[("n", f64::from(nodes), FigureUnit::Number), ("r", f64::from(copies), FigureUnit::Number)],
    ));
    if node.input.copies > 1 {
        let repair = repair(node);
        figures.push(PlanFigure::new(
            Failure,
            "until the records of a lost node have all copies again",
            repair_seconds(node),
            FigureUnit::Seconds,
            "d + time of the busiest of o nodes, which copy segments of s to and from random nodes; at least b / (o·R)",
            &[
                ("d", LOST_AFTER_SECONDS, FigureUnit::Seconds),
                ("b", repair.bytes, FigureUnit::Bytes),
                ("o", f64::from(repair.nodes) - 1.0, FigureUnit::Number),
                ("R", repair.node_bytes_per_second, FigureUnit::BytesPerSecond),
                ("s", repair.segment_bytes, FigureUnit::Bytes),
            ],
        ));
    }
    figures
}
