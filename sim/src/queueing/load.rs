//! The size of a cluster, and its load.

use super::calibration::{GATHER_SECONDS, SEGMENT_APPENDS};

/// The numbers of nodes that are compared.
const NODES: [u32; 4] = [3, 10, 30, 100];

/// The utilisations that are compared.
const UTILISATIONS: [f64; 3] = [0.3, 0.6, 0.85];

/// A cluster of ingest nodes and stores under a steady load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueingLoad {
    /// Number of nodes.
    pub nodes: u32,
    /// Share of the time in which a store gathers, without calls and pauses.
    pub utilisation: f64,
}

impl QueueingLoad {
    /// All loads, or those of one number of nodes or of one utilisation.
    #[must_use]
    pub fn all(nodes: Option<u32>, utilisation: Option<f64>) -> Vec<Self> {
        let nodes = nodes.map_or(NODES.to_vec(), |nodes| vec![nodes]);
        let utilisations = utilisation.map_or(UTILISATIONS.to_vec(), |utilisation| vec![utilisation]);
        let of_size = |nodes| utilisations.iter().map(move |utilisation| Self { nodes, utilisation: *utilisation });
        nodes.into_iter().flat_map(of_size).collect()
    }

    /// Nodes that accept records: a third of all.
    pub(super) fn ingest_nodes(self) -> u32 {
        (self.nodes / 3).max(1)
    }

    /// Nodes that store them: the others.
    pub(super) fn stores(self) -> u32 {
        self.nodes - self.ingest_nodes()
    }

    /// Segments that become pending per second on all nodes.
    pub(super) fn segments_per_second(self) -> f64 {
        f64::from(self.stores()) * self.utilisation / GATHER_SECONDS
    }

    /// Appends per second to one ingest node.
    pub(super) fn appends_per_second(self) -> f64 {
        self.segments_per_second() * f64::from(SEGMENT_APPENDS) / f64::from(self.ingest_nodes())
    }
}
