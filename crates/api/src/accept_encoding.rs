//! The encodings that a client accepts, by `Accept-Encoding`.

use axum::http::{HeaderMap, header};

/// Of `offered`, the encoding with the greatest weight; of equal ones, the first.
pub(crate) fn choose(headers: &HeaderMap, offered: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    let mut best: Option<(f32, &'static str)> = None;
    for encoding in offered {
        let weight = weight(headers, encoding);
        if weight > best.map_or(0.0, |(weight, _)| weight) {
            best = Some((weight, encoding));
        }
    }
    best.map(|(_, encoding)| encoding)
}

/// The weight of an encoding: from its own item, such as `br;q=0.8`, else from `*`, else 0.
fn weight(headers: &HeaderMap, encoding: &str) -> f32 {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let items: Vec<(&str, f32)> = values.flat_map(|value| value.split(',')).filter_map(parse).collect();
    let of = |name: &str| items.iter().find(|(item, _)| item.eq_ignore_ascii_case(name)).map(|(_, weight)| *weight);
    of(encoding).or_else(|| of("*")).unwrap_or_default()
}

/// The name and weight of an item.
fn parse(item: &str) -> Option<(&str, f32)> {
    let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
    let weight = parameters.trim().strip_prefix("q=").map_or(Some(1.0), |weight| weight.trim().parse().ok())?;
    Some((name.trim(), weight))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_encoding_of_the_greatest_weight_is_chosen() {
        let check = |accepted: &'static str, want: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            assert_eq!(choose(&headers, ["zstd", "gzip"]), want, "{accepted}");
        };
        check("gzip, deflate, br, zstd", Some("zstd"));
        check("gzip;q=1.0, zstd;q=0.5", Some("gzip"));
        check("gzip;q=0.5,zstd ; q=0", Some("gzip"));
        check("zstd;q=0, *", Some("gzip"));
        check("*;q=0, gzip", Some("gzip"));
        check("GZIP", Some("gzip"));
        check("*", Some("zstd"));
        check("gzip;q=x, zstd;q=NaN", None);
        check("identity, gzipped", None);
        check("", None);
        assert_eq!(choose(&HeaderMap::new(), ["zstd"]), None);
        let mut headers = HeaderMap::new();
        for item in ["deflate", "gzip"] {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(item));
        }
        assert_eq!(choose(&headers, ["zstd", "gzip"]), Some("gzip"));
    }
}
