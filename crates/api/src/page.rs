//! The files of the page.
//!
//! Browsers cache files with a hash in their name without a time limit, and revalidate other files by `ETag`. Only
//! paths that the page uses are served; others get 404.
//!
//! A content security policy keeps the page from loading anything from elsewhere and from running inline scripts, so
//! that a log line is never more than text.

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bucksaw_page::PageFile;

use crate::accept_encoding;
use crate::error::ApiError;

/// `style-src` covers styles in markup, not styles that scripts set on elements.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
    connect-src 'self'; worker-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
    form-action 'none'; require-trusted-types-for 'script'; trusted-types bucksaw";

pub(crate) async fn index(headers: HeaderMap) -> Result<Response, ApiError> {
    file("index.html", &headers)
}

pub(crate) async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    file(&format!("assets/{path}"), &headers)
}

pub(crate) async fn icon(headers: HeaderMap) -> Result<Response, ApiError> {
    file("favicon.svg", &headers)
}

fn file(path: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    bucksaw_page::find(path).map(|file| file_response(file, headers)).ok_or_else(ApiError::unknown_path)
}

fn file_response(file: &'static PageFile, request: &HeaderMap) -> Response {
    let (bytes, encoding) = negotiate_encoding(file, request);
    let tag = etag(file, encoding);
    let known = request.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let known = known.split(',').any(|known| known.trim().trim_start_matches("W/") == tag);
    let mut response = if known { StatusCode::NOT_MODIFIED.into_response() } else { bytes.into_response() };
    let kept = if file.is_hashed() { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| drop(headers.insert(name, HeaderValue::from_static(value)));
    set(header::CONTENT_TYPE, file.content_type());
    set(header::CACHE_CONTROL, kept);
    set(header::VARY, "Accept-Encoding");
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::REFERRER_POLICY, "no-referrer");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()");
    if let (Some(encoding), false) = (encoding, known) {
        set(header::CONTENT_ENCODING, encoding);
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// The file in the encoding that the client prefers, of equal ones the smallest.
fn negotiate_encoding(file: &'static PageFile, request: &HeaderMap) -> (&'static [u8], Option<&'static str>) {
    let packed = [("br", file.brotli), ("gzip", file.gzip)];
    let packed: Vec<_> = packed.into_iter().filter_map(|(name, bytes)| Some((name, bytes?))).collect();
    let chosen = accept_encoding::choose(request, packed.iter().map(|(name, _)| *name));
    let found = packed.iter().find(|(name, _)| chosen == Some(name));
    found.map_or((file.plain, None), |(name, bytes)| (bytes, Some(name)))
}

/// A hash of the file (FNV-1a: a forged tag would harm no other client), and its encoding.
fn etag(file: &'static PageFile, encoding: Option<&str>) -> String {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = file.plain.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    format!("\"{hash:016x}{}\"", encoding.map_or("", |name| if name == "br" { "-br" } else { "-gzip" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_accepted_encoding_is_chosen() {
        let file: &'static PageFile =
            Box::leak(Box::new(PageFile { path: "x.js", plain: b"plain", brotli: Some(b"br"), gzip: Some(b"gz") }));
        let check = |accepted: &'static str, want: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            assert_eq!(negotiate_encoding(file, &headers).1, want, "{accepted}");
        };
        check("gzip, deflate, br, zstd", Some("br"));
        check("gzip;q=1.0, br;q=0", Some("gzip"));
        check("GZIP", Some("gzip"));
        check("*", Some("br"));
        check("identity, broil", None);
        check("", None);
        assert_eq!(negotiate_encoding(file, &HeaderMap::new()).1, None);
    }
}
