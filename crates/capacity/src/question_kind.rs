//! The kinds of questions that a plan tells apart.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The kinds of questions with different costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuestionKind {
    /// A rare word, such as a request id: skip filters exclude most blocks.
    Needle,
    /// The count of a frequent word.
    Word,
    /// A regular expression without a literal.
    Regex,
    /// The histogram of a frequent word, as the page and dashboards ask for it.
    Histogram,
}

impl QuestionKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Needle, Self::Word, Self::Regex, Self::Histogram];

    /// Its name in files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Needle => "needle",
            Self::Word => "word",
            Self::Regex => "regex",
            Self::Histogram => "histogram",
        }
    }
}

impl fmt::Display for QuestionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for QuestionKind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or("expected needle, word, regex or histogram")
    }
}
