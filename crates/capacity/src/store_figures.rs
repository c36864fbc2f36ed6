//! The figures of gathering, encoding, merging and keeping records.

use bucksaw_model::{LeaseRace, SharedServers};

use crate::figure::{FigureUnit, PlanFigure, Section};
use crate::planned_node::{
    BACKGROUND_SHARE, BURST_SECONDS, BURST_STORED_SHARE, DISK_FREE_SHARE, PlannedNode, SEGMENT_TEXT_BYTES,
};
use crate::segment_rotation::QUEUE_SEGMENT_SECONDS;

/// The pause of a store after a gather, or after it found no segment in any queue, in seconds.
const FETCH_PAUSE_SECONDS: f64 = 0.02;

/// All of them.
pub(crate) fn store_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
    let mut figures = gather_figures(node);
    figures.extend(cpu_figures(node));
    figures.extend(disk_figures(node));
    figures.push(memory_figure(node));
    figures.push(sustained_figure(node));
    figures
}

/// How long the queue keeps a record, and what the race of the stores for its segments costs.
fn gather_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
    use Section::Store;
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
    ]
}

/// The text that a store takes, and what that costs.
fn cpu_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
    use Section::Store;
    let (input, cost) = (node.input, &node.calibration.store);
    vec![
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
                ("c", node.copied(), FigureUnit::BytesPerSecond),
                ("S", node.store_cost(), FigureUnit::SecondsPerByte),
                ("a", cost.seconds_per_byte, FigureUnit::SecondsPerByte),
                ("M", node.merges(), FigureUnit::Number),
                ("b", cost.merge_seconds_per_byte, FigureUnit::SecondsPerByte),
                ("k", node.calibration.scaling.factor(node.store_nodes), FigureUnit::Number),
            ],
        ),
    ]
}

fn disk_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
    use Section::Store;
    let (input, cost) = (node.input, &node.calibration.store);
    let copied = ("c", node.copied(), FigureUnit::BytesPerSecond);
    vec![
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
    ]
}

fn memory_figure(node: &PlannedNode<'_>) -> PlanFigure {
    PlanFigure::new(
        Section::Store,
        "memory without load, with a full block cache and the index",
        node.calibration.base_memory_bytes + node.cache_bytes() + node.index_bytes(),
        FigureUnit::Bytes,
        "base + cache + index",
        &[
            ("base", node.calibration.base_memory_bytes, FigureUnit::Bytes),
            ("cache", node.cache_bytes(), FigureUnit::Bytes),
            ("index", node.index_bytes(), FigureUnit::Bytes),
        ],
    )
}

fn sustained_figure(node: &PlannedNode<'_>) -> PlanFigure {
    let input = node.input;
    let sustained =
        BACKGROUND_SHARE * input.node.cpu() / node.store_cost() / f64::from(input.copies) * node.store_nodes;
    PlanFigure::new(
        Section::Store,
        "rate of the cluster that is stored while questions never pause",
        sustained,
        FigureUnit::BytesPerSecond,
        "g·cores·n / (S·r): a larger backlog than 2 GiB is stored without yielding to questions",
        &[
            ("g", BACKGROUND_SHARE, FigureUnit::Share),
            ("cores", input.node.cpu(), FigureUnit::Cores),
            ("n", node.store_nodes, FigureUnit::Number),
            ("S", node.store_cost(), FigureUnit::SecondsPerByte),
            ("r", f64::from(input.copies), FigureUnit::Number),
        ],
    )
}
