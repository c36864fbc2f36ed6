//! The resources of a node.

/// A resource of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Its cores.
    Cpu,
    /// The space of its disk.
    DiskSpace,
    /// What its disk can write per second.
    DiskBandwidth,
    /// What its network can carry per second in one direction.
    Network,
    /// The memory for the index of stored segments.
    IndexMemory,
}

impl Resource {
    /// All resources.
    pub const ALL: [Self; 5] = [Self::Cpu, Self::DiskSpace, Self::DiskBandwidth, Self::Network, Self::IndexMemory];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::DiskSpace => "disk space",
            Self::DiskBandwidth => "disk bandwidth",
            Self::Network => "network",
            Self::IndexMemory => "index memory",
        }
    }
}
