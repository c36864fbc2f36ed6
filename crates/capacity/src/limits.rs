//! Which resource of a node limits the load first, and which one next.

use crate::planned_node::PlannedNode;
use crate::resource::Resource;
use crate::tier::Tier;

/// A resource, how much of it the planned load uses, and the load that uses all of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResourceLimit {
    /// The nodes that have the resource.
    pub tier: Tier,
    /// The resource.
    pub resource: Resource,
    /// The share in use at the planned peak; above 1 it is not enough.
    pub utilisation: f64,
    /// The load relative to the planned one at which all of it is in use; infinite if no load does that.
    pub load_factor: f64,
}

/// The largest load relative to the planned one for which limits are searched.
const FACTOR_MAX: f64 = 1e9;

/// All resources of a node.
pub(crate) fn limits(node: &PlannedNode<'_>) -> Vec<ResourceLimit> {
    Resource::ALL
        .into_iter()
        .map(|resource| {
            let exceeds = |factor| node.at(factor).utilisation(resource) >= 1.0;
            ResourceLimit {
                tier: node.tier,
                resource,
                utilisation: node.utilisation(resource),
                load_factor: least_factor(exceeds),
            }
        })
        .collect()
}

/// The least load factor for which `exceeds` holds, to a relative error of a millionth; infinite if there is none.
/// `exceeds` must not become false again as the load grows.
pub(crate) fn least_factor(exceeds: impl Fn(f64) -> bool) -> f64 {
    let (mut below, mut above) = (0.0, 1.0);
    while !exceeds(above) {
        below = above;
        above *= 2.0;
        if above > FACTOR_MAX {
            return f64::INFINITY;
        }
    }
    while above - below > above * 1e-6 && above > 1e-9 {
        let middle = f64::midpoint(below, above);
        if exceeds(middle) {
            above = middle;
        } else {
            below = middle;
        }
    }
    above
}
