//! The plan for a number of nodes, and the least number that is enough.

use crate::calibration::Calibration;
use crate::figure::PlanFigure;
use crate::figures::figures;
use crate::input::{CapacityInput, InputError};
use crate::limits::{ResourceLimit, least_factor, limits};
use crate::planned_node::PlannedNode;
use crate::questions::QuestionFigures;
use crate::repair::repair_seconds;
use crate::resource::Resource;

/// The most nodes of a plan: a node knows 1,000 others.
const NODES_MAX: u32 = 1_000;

/// The share of each resource that a plan uses at the peak, so that an error of a fifth does not overload a node.
const UTILISATION_MAX: f64 = 0.8;

/// The number of points of the load curve, and the least load that is not taken for overload.
const CURVE_POINTS: u32 = 20;
const LOAD_FACTOR_MIN: f64 = 1e-6;

/// What a cluster needs and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// The number of nodes, with those that may be down.
    pub nodes: u32,
    /// The number of nodes if accepting and storing are on nodes of their own: ingest nodes, store nodes. `None` if no
    /// number is enough.
    pub separate_nodes: Option<(u32, u32)>,
    /// Whether these nodes carry the load and meet all targets while as many are down as the input says.
    pub is_enough: bool,
    /// Why it is not enough: the resources above their share and the targets missed, in words.
    pub shortfalls: Vec<String>,
    /// All figures per node, while as many nodes are down as the input says.
    pub figures: Vec<PlanFigure>,
    /// The questions.
    pub questions: Vec<QuestionFigures>,
    /// The resources, the one that limits first in front.
    pub limits: Vec<ResourceLimit>,
    /// Mean response time of the dearest question by the rate of questions: pairs of rate, relative to the planned one,
    /// and seconds, for a plot. Empty without questions, or if the node is overloaded.
    pub load_curve: Vec<(f64, f64)>,
}

impl Capacity {
    /// The plan for the number of nodes in the input, or for the least number that is enough. If 1,000 are not enough,
    /// the plan is for 1,000 and has [`Capacity::shortfalls`].
    ///
    /// # Errors
    /// A value of the input makes no sense, or the calibration lacks the cost of a question.
    pub fn of(input: &CapacityInput, calibration: &Calibration) -> Result<Self, InputError> {
        input.check(calibration)?;
        let both = |nodes| PlannedNode::of_both_roles(input, calibration, nodes);
        let nodes = input.nodes.unwrap_or_else(|| {
            (input.nodes_min()..=NODES_MAX).find(|nodes| shortfalls(&both(*nodes)).is_empty()).unwrap_or(NODES_MAX)
        });
        let node = both(nodes);
        let shortfalls = shortfalls(&node);
        let questions: Vec<QuestionFigures> = input.questions.iter().map(|question| node.question(question)).collect();
        Ok(Self {
            nodes,
            separate_nodes: separate_nodes(input, calibration),
            is_enough: shortfalls.is_empty(),
            shortfalls,
            figures: figures(&node),
            limits: limits(&node),
            load_curve: load_curve(&node, &questions),
            questions,
        })
    }
}

/// The resources above their share and the targets missed.
fn shortfalls(node: &PlannedNode<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for resource in Resource::ALL {
        let used = node.utilisation(resource);
        if used > UTILISATION_MAX {
            found.push(format!(
                "{} is in use to {:.0} % at the peak, more than {:.0} %",
                resource.name(),
                used * 100.0,
                UTILISATION_MAX * 100.0
            ));
        }
    }
    let targets = &node.input.targets;
    if let Some(target) = targets.question_p99_seconds {
        for question in &node.input.questions {
            let p99 = node.question(question).p99_seconds;
            if p99 > target {
                found.push(format!("p99 of the question '{}' is {p99:.3} s, above {target} s", question.kind));
            }
        }
    }
    if let Some(target) = targets.ack_p99_seconds {
        let p99 = node.ack().map_or(f64::INFINITY, |ack| ack.quantile(0.99));
        if p99 > target {
            found.push(format!("p99 of acknowledgements is {p99:.3} s, above {target} s"));
        }
    }
    if let Some(target) = targets.repair_seconds {
        let seconds = repair_seconds(node);
        if seconds > target {
            found.push(format!("re-replicating a node takes {seconds:.0} s, more than {target} s"));
        }
    }
    found
}

/// The least ingest nodes and store nodes, if each node has one role.
fn separate_nodes(input: &CapacityInput, calibration: &Calibration) -> Option<(u32, u32)> {
    let node = PlannedNode::of_both_roles(input, calibration, input.nodes_min());
    let is_enough =
        |node: PlannedNode<'_>| Resource::ALL.into_iter().all(|resource| node.utilisation(resource) <= UTILISATION_MAX);
    let alive = |nodes: &u32| Some(f64::from(nodes.saturating_sub(input.failed_nodes)));
    let ingest = (1 + input.failed_nodes..=NODES_MAX)
        .find(|nodes| is_enough(PlannedNode { ingest_nodes: alive(nodes), store_nodes: None, ..node }))?;
    let store = (input.nodes_min()..=NODES_MAX)
        .find(|nodes| is_enough(PlannedNode { ingest_nodes: None, store_nodes: alive(nodes), ..node }))?;
    Some((ingest, store))
}

/// Rates of questions at which the mean response of the dearest question is drawn, up to the rate that the CPU carries.
fn load_curve(node: &PlannedNode<'_>, questions: &[QuestionFigures]) -> Vec<(f64, f64)> {
    let dearest = questions.iter().max_by(|left, right| left.cpu_seconds.total_cmp(&right.cpu_seconds));
    let Some(dearest) = dearest else { return Vec::new() };
    let most = least_factor(|factor| node.at_questions(factor).stretch().is_infinite());
    if !most.is_finite() || most <= LOAD_FACTOR_MIN {
        return Vec::new();
    }
    let points = (0..CURVE_POINTS).map(|point| f64::from(point) / f64::from(CURVE_POINTS) * most);
    points.map(|factor| (factor, node.at_questions(factor).question(&dearest.question).mean_seconds)).collect()
}
