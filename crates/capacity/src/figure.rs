//! A figure of a plan with the formula that it comes from.

use std::borrow::Cow;

use crate::tier::Tier;

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureUnit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Cores, or CPU seconds per second.
    Cores,
    /// CPU seconds per byte.
    SecondsPerByte,
    /// Events per second.
    PerSecond,
    /// A number without a unit.
    Number,
    /// A share between 0 and 1.
    Share,
}

/// The part of a plan that a figure belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Accepting and acknowledging records.
    Ingest,
    /// Gathering, encoding, merging and keeping them.
    Store,
    /// Answering questions.
    Search,
    /// Traffic between nodes.
    Network,
    /// What happens when nodes fail.
    Failure,
}

impl Section {
    /// Its heading.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Store => "store",
            Self::Search => "search",
            Self::Network => "network",
            Self::Failure => "failure",
        }
    }
}

/// A symbol of a formula and its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Symbol {
    /// As the formula writes it.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// The unit of the value.
    pub unit: FigureUnit,
}

/// One value of a plan, per node unless its name says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanFigure {
    /// The nodes that it belongs to.
    pub tier: Tier,
    /// The part of the plan.
    pub section: Section,
    /// What it is, in words; unique in a tier.
    pub name: String,
    /// Its value; infinite if there is none.
    pub value: f64,
    /// The unit of the value.
    pub unit: FigureUnit,
    /// How the value follows from the symbols.
    pub formula: Cow<'static, str>,
    /// The symbols of the formula.
    pub symbols: Vec<Symbol>,
}

impl PlanFigure {
    /// A figure whose formula has these symbols.
    pub(crate) fn new(
        section: Section,
        name: impl Into<String>,
        value: f64,
        unit: FigureUnit,
        formula: impl Into<Cow<'static, str>>,
        symbols: &[(&'static str, f64, FigureUnit)],
    ) -> Self {
        let symbols = symbols.iter().map(|&(name, value, unit)| Symbol { name, value, unit }).collect();
        Self { tier: Tier::Both, section, name: name.into(), value, unit, formula: formula.into(), symbols }
    }
}
