//! What the nodes of a plan do.

/// The roles of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// It accepts records, and stores and searches them.
    Both,
    /// It accepts records.
    Ingest,
    /// It stores and searches them.
    Store,
}

impl Tier {
    /// Its name, as a node of it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Both => "node",
            Self::Ingest => "ingest node",
            Self::Store => "store node",
        }
    }

    /// Whether its nodes accept records.
    #[must_use]
    pub const fn has_ingest(self) -> bool {
        matches!(self, Self::Both | Self::Ingest)
    }

    /// Whether its nodes store and search records.
    #[must_use]
    pub const fn has_store(self) -> bool {
        matches!(self, Self::Both | Self::Store)
    }
}

/// The number of nodes of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlannedNodes {
    /// The least number of nodes with both roles that is enough.
    #[default]
    Least,
    /// This many nodes with both roles.
    Both(u32),
    /// Nodes with one role each.
    Separate {
        /// Nodes that accept records.
        ingest: u32,
        /// Nodes that store and search them.
        store: u32,
    },
}
