//! What a certificate states.

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

/// The certificate in DER; `None` if it cannot be read.
pub(crate) fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| certificate)
}

/// When a certificate expires, in seconds since 1970; `None` if it cannot be read.
pub(crate) fn expiry(der: &[u8]) -> Option<i64> {
    Some(parse(der)?.validity().not_after.timestamp())
}
