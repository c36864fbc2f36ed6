//! How a request names its tenant.

use std::borrow::Cow;

use axum::http::{HeaderMap, header};
use percent_encoding::percent_decode_str;

/// The header with the tenant of a request, which clients of Loki send.
pub(crate) const TENANT_HEADER: &str = "x-scope-orgid";

/// The cookie with the tenant that a user of the page chose, percent-encoded.
const TENANT_COOKIE: &str = "bucksaw_tenant";

/// The tenant that a request names: in the header, else in the cookie of the page. A value that is not UTF-8 is an empty one, which
/// is no tenant's name.
pub(crate) fn requested_tenant(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    if let Some(tenant) = headers.get(TENANT_HEADER) {
        return Some(tenant.to_str().unwrap_or_default().into());
    }
    headers.get_all(header::COOKIE).iter().find_map(|cookies| {
        let mut pairs = cookies.to_str().ok()?.split(';').filter_map(|pair| pair.trim_ascii().split_once('='));
        let (_, tenant) = pairs.find(|(name, _)| *name == TENANT_COOKIE)?;
        Some(percent_decode_str(tenant).decode_utf8().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn the_header_precedes_the_cookie() {
        let check = |headers: &[(&'static str, &[u8])], want: Option<&str>| {
            let pairs = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap()));
            assert_eq!(requested_tenant(&HeaderMap::from_iter(pairs)).as_deref(), want, "{headers:?}");
        };
        check(&[], None);
        check(&[("cookie", b"a=b; bucksaw_token=x")], None);
        check(&[("cookie", b"a=b; bucksaw_tenant=of%20a%3B")], Some("of a;"));
        check(&[("cookie", b"bucksaw_tenant=a"), ("x-scope-orgid", b"b")], Some("b"));
        check(&[("cookie", b"bucksaw_tenant=%ff")], Some(""));
        check(&[("x-scope-orgid", b"\xff")], Some(""));
    }
}
