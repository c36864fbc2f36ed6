//! What does not change while an agent runs.

/// What an agent tells about itself.
#[derive(Clone, Debug, Default)]
pub struct AgentInfo {
    /// The name of the machine; empty if unknown.
    pub host: String,
    /// The version of the program.
    pub version: String,
}
