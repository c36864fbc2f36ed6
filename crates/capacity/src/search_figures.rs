//! The figures of answering questions.

use crate::calibration::QuestionCost;
use crate::figure::{FigureUnit, PlanFigure, Section};
use crate::input::PlannedQuestion;
use crate::limits::least_factor;
use crate::planned_node::{BACKGROUND_SHARE, PlannedNode};

/// All of them.
pub(crate) fn search_figures(node: &PlannedNode<'_>) -> Vec<PlanFigure> {
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
    figures.extend(node.input.questions.iter().map(|question| question_figure(node, question)));
    figures
}

fn question_figure(node: &PlannedNode<'_>, question: &PlannedQuestion) -> PlanFigure {
    let cost = node.calibration.question(question.kind);
    let part = |value: &dyn Fn(&QuestionCost) -> f64| cost.map_or(f64::INFINITY, value);
    PlanFigure::new(
        Section::Search,
        format!("CPU of a question '{}' over {} s", question.kind, question.range_seconds),
        node.mean_question_demand(question).cpu_seconds,
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
    )
}
