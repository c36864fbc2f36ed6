//! The parameters of a URL.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// Names and values of the query of a URL, without the `?`. Bytes that are not UTF-8 are replaced.
pub(crate) fn query_pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    })
}

fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains('+') {
        return percent_decode(text.as_bytes()).decode_utf8_lossy();
    }
    let spaced = text.replace('+', " ");
    Cow::Owned(percent_decode(spaced.as_bytes()).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded() {
        let pairs: Vec<String> =
            query_pairs("a=b+c%20d&e&=f&&g=%ff%zz").map(|(name, value)| format!("{name}:{value}")).collect();
        assert_eq!(pairs, ["a:b c d", "e:", ":f", "g:\u{fffd}%zz"]);
    }
}
