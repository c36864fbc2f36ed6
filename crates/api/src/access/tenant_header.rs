//! How a request names its tenant.

/// The header with the tenant of a request, which clients of Loki send.
pub(crate) const TENANT_HEADER: &str = "x-scope-orgid";
