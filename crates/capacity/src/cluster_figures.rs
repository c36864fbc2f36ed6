//! The figures of traffic between nodes, and of nodes that fail.

use bucksaw_model::{NodeFailures, Rumour};

use crate::figure::{FigureUnit, PlanFigure, Section};
use crate::planned_node::{BURST_STORED_SHARE, DISK_FREE_SHARE, PlannedNode};
use crate::repair::{LOST_AFTER_SECONDS, repair, repair_seconds};

/// The interval in which a node sends news of members, in seconds, and to how many others.
const GOSSIP_SECONDS: f64 = 0.2;
const GOSSIP_FANOUT: u32 = 3;

/// The bytes that a node receives and sends.
pub(crate) fn network_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
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

/// How long the disk has room for the queue while no store works.
pub(crate) fn disk_full_figure(node: &PlannedNode<'_>) -> PlanFigure {
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

/// How fast others know of a failed node, what is lost with several, and how long repair takes.
pub(crate) fn failure_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
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
