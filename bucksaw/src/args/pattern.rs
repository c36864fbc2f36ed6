//! Which records match: the expression and grep's letters.

use std::ffi::OsString;

use clap::Args;

use crate::failure::UsageError;
use crate::layers::Layer;

/// The expression, and how it is read.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PatternArgs {
    /// Filter expression; every record matches without one
    #[arg(value_name = "EXPR", allow_hyphen_values = false)]
    pub(crate) expr: Option<OsString>,

    /// Filter expression; repeatable: a record matches if one of them does
    #[arg(short = 'e', long = "expr", value_name = "EXPR", id = "exprs", allow_hyphen_values = true)]
    pub(crate) exprs: Vec<OsString>,

    /// Search for EXPR as it is, without special characters
    #[arg(short = 'F', long)]
    pub(crate) fixed_strings: bool,

    /// Search for EXPR as one regex
    #[arg(short = 'E', long)]
    pub(crate) extended_regexp: bool,

    /// Ignore case
    #[arg(short, long)]
    pub(crate) ignore_case: bool,

    /// Match texts and regexes only as whole words
    ///
    /// No letter, digit or underscore may stand before or behind the match. Tests of fields are unchanged.
    #[arg(short, long)]
    pub(crate) word_regexp: bool,

    /// Show the records that do not match
    #[arg(short = 'v', long)]
    pub(crate) invert_match: bool,
}

impl PatternArgs {
    /// Resolves `-F` and `-E`, and EXPR and `-e`, by the layer they come from; both from one layer are an error.
    pub(crate) fn apply_layers(&mut self, layer: impl Fn(&str) -> Layer) -> Result<(), UsageError> {
        if self.fixed_strings && self.extended_regexp {
            let (fixed, regex) = (layer("fixed_strings"), layer("extended_regexp"));
            if fixed == regex {
                return Err(UsageError("both -F and -E are given: omit one of them".to_owned()));
            }
            self.fixed_strings = fixed > regex;
            self.extended_regexp = regex > fixed;
        }
        if self.expr.is_some() && !self.exprs.is_empty() {
            if layer("exprs") == Layer::Flag {
                return Err(UsageError("both EXPR and -e are given: put -e before each expression".to_owned()));
            }
            self.exprs.clear();
        }
        Ok(())
    }
}
