//! The rule of one path.

use super::{ErrorForm, RouteAccess};

/// The rule of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteRule {
    pub(crate) access: RouteAccess,
    /// How a refusal is written.
    pub(crate) form: ErrorForm,
}
