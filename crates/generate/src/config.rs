//! What kind of lines are wanted.

/// How a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The kinds of a fleet, mixed: web access, logfmt, Java, database and system lines.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What a [`Generator`](crate::Generator) makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// How the lines are written.
    pub format: Format,
    /// Bytes of every line without its line feed, or `None` for lines as long as they come (about 40 to 500 bytes).
    ///
    /// Longer lines are cut, never inside a character, and shorter ones get a tail of made-up fields. A JSON line stays
    /// valid JSON at every size above 0; it keeps as many of its leading fields as fit.
    pub size: Option<usize>,
    /// Lines of different seeds differ; lines of one seed do not.
    pub seed: u64,
}
