//! How an answer that may lack records ends a command.

use super::AnswerStats;
use crate::exit::Exit;

/// Prints the hints of an answer, and why it is partial. Returns the exit code: of trouble if the answer is partial, unless
/// that is allowed.
pub(crate) fn settle(stats: &AnswerStats, any: bool, allow_partial: bool) -> Exit {
    stats.print_hints();
    stats.print_partial();
    if stats.is_partial() && !allow_partial { Exit::Trouble } else { Exit::found(any) }
}
