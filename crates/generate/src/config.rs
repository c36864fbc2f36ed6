//! The configuration of a generator.

/// The format of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleFormat {
    /// A mix of the kinds of a fleet: web access, logfmt, Java, database and system lines.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The lines that a [`Generator`](crate::Generator) produces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The format of the lines.
    pub format: SampleFormat,
    /// Bytes of every line without its line feed, or `None` for natural lengths (about 40 to 500 bytes).
    ///
    /// Longer lines are cut at a character boundary, shorter ones padded with random fields. A JSON line stays valid
    /// JSON at every size above 0, with as many of its leading fields as fit.
    pub size: Option<usize>,
    /// The seed. Different seeds give different lines, equal seeds equal lines.
    pub seed: u64,
}
