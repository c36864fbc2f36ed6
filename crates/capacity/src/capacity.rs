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
use crate::tier::{PlannedNodes, Tier};

/// The most nodes of a plan: a node knows 1,000 others.
const NODES_MAX: u32 = 1_000;

/// The share of each resource that a plan uses at the peak, so that an error of a fifth does not overload a node.
const UTILISATION_MAX: f64 = 0.8;

/// The number of points of the load curve, and the least load that is not taken for overload.
const CURVE_POINTS: u32 = 20;
const LOAD_FACTOR_MIN: f64 = 1e-6;

/// The nodes with the same roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSize {
    /// Their roles.
    pub tier: Tier,
    /// Their number, with those that may be down.
    pub nodes: u32,
}

/// What a cluster needs and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// The nodes: one tier with both roles, or one for each role.
    pub tiers: Vec<TierSize>,
    /// The least number of nodes if accepting and storing are on nodes of their own: ingest nodes, store nodes. `None` if no
    /// number is enough.
    pub separate_nodes: Option<(u32, u32)>,
    /// Whether these nodes carry the load and meet all targets while as many are down as the input says.
    pub is_enough: bool,
    /// Why it is not enough: the resources above their share and the targets missed, in words.
    pub shortfalls: Vec<String>,
    /// All figures per node of each tier, while as many nodes of it are down as the input says.
    pub figures: Vec<PlanFigure>,
    /// The questions.
    pub questions: Vec<QuestionFigures>,
    /// The resources of all tiers, the one that limits first in front.
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
        let both = |nodes| (nodes, PlannedNode::of_both_roles(input, calibration, nodes));
        let least = || {
            let is_enough = |nodes: &u32| shortfalls(&both(*nodes).1).is_empty();
            (input.nodes_min()..=NODES_MAX).find(is_enough).unwrap_or(NODES_MAX)
        };
        let tiers: Vec<(u32, PlannedNode<'_>)> = match input.nodes {
            PlannedNodes::Least => vec![both(least())],
            PlannedNodes::Both(nodes) => vec![both(nodes)],
            PlannedNodes::Separate { ingest, store } => {
                let of = |tier| PlannedNode::of_one_role(input, calibration, tier, (ingest, store));
                vec![(ingest, of(Tier::Ingest)), (store, of(Tier::Store))]
            }
        };
        let shortfalls: Vec<String> = tiers.iter().flat_map(|(_, node)| shortfalls(node)).collect();
        let mut limits: Vec<ResourceLimit> = tiers.iter().flat_map(|(_, node)| limits(node)).collect();
        limits.sort_by(|left, right| left.load_factor.total_cmp(&right.load_factor));
        let store = tiers.iter().map(|(_, node)| node).find(|node| node.tier.has_store());
        let questions: Vec<QuestionFigures> =
            store.into_iter().flat_map(|node| input.questions.iter().map(|question| node.question(question))).collect();
        Ok(Self {
            separate_nodes: separate_nodes(input, calibration),
            is_enough: shortfalls.is_empty(),
            shortfalls,
            figures: tiers.iter().flat_map(|(_, node)| figures(node)).collect(),
            limits,
            load_curve: store.map(|node| load_curve(node, &questions)).unwrap_or_default(),
            questions,
            tiers: tiers.iter().map(|(nodes, node)| TierSize { tier: node.tier, nodes: *nodes }).collect(),
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
                "{} of {} {} is in use to {:.0} % at the peak, more than {:.0} %",
                resource.name(),
                if node.tier == Tier::Ingest { "an" } else { "a" },
                node.tier.name(),
                used * 100.0,
                UTILISATION_MAX * 100.0
            ));
        }
    }
    let targets = &node.input.targets;
    if let Some(target) = targets.question_p99_seconds.filter(|_| node.tier.has_store()) {
        for question in &node.input.questions {
            let p99 = node.question(question).p99_seconds;
            if p99 > target {
                found.push(format!("p99 of the question '{}' is {p99:.3} s, above {target} s", question.kind));
            }
        }
    }
    if let Some(target) = targets.ack_p99_seconds.filter(|_| node.tier.has_ingest()) {
        let p99 = node.ack().map_or(f64::INFINITY, |ack| ack.quantile(0.99));
        if p99 > target {
            found.push(format!("p99 of acknowledgements is {p99:.3} s, above {target} s"));
        }
    }
    if let Some(target) = targets.repair_seconds.filter(|_| node.tier.has_store()) {
        let seconds = repair_seconds(node);
        if seconds > target {
            found.push(format!("re-replicating a node takes {seconds:.0} s, more than {target} s"));
        }
    }
    found
}

/// The least ingest nodes and store nodes, if each node has one role.
fn separate_nodes(input: &CapacityInput, calibration: &Calibration) -> Option<(u32, u32)> {
    let is_enough = |tier, nodes| {
        let node = PlannedNode::of_one_role(input, calibration, tier, nodes);
        Resource::ALL.into_iter().all(|resource| node.utilisation(resource) <= UTILISATION_MAX)
    };
    let least = input.nodes_min();
    let ingest = (1 + input.failed_nodes..=NODES_MAX).find(|nodes| is_enough(Tier::Ingest, (*nodes, least)))?;
    let store = (least..=NODES_MAX).find(|nodes| is_enough(Tier::Store, (ingest, *nodes)))?;
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
