//! The gram filter: which texts a block cannot contain.

mod escaped_bytes;
#[expect(clippy::module_inception, reason = "the main type of the module")]
mod filter;
mod filter_builder;
mod grams;
mod recent_runs;
mod saturation;

pub use filter::Filter;
pub(crate) use filter_builder::FilterBuilder;
