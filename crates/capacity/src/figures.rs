//! The figures of a plan, each with its formula.

use crate::cluster_figures::{disk_full_figure, failure_figures, network_figures};
use crate::figure::{FigureUnit, PlanFigure, Section};
use crate::ingest_figures::ingest_figures;
use crate::planned_node::PlannedNode;
use crate::search_figures::search_figures;
use crate::store_figures::store_figures;

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
