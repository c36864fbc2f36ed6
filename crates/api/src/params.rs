//! The parameters of a call, from the query string or a form. Values are bytes, because a filter may contain any.

use axum::body::{Body, Bytes};
use axum::extract::FromRequest;
use axum::http::{self, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bucksaw_auth::ClientAccess;
use bucksaw_query::{Order, Request};
use bucksaw_record::time::TimeZone;
use bucksaw_record::{Expr, Id, Millis, time};
use percent_encoding::percent_decode;

use crate::audit::RequestFacts;
use crate::error::ApiError;

/// Parameters in the given order.
#[derive(Debug, Default)]
pub(crate) struct Params(Vec<(String, Vec<u8>)>);

impl Params {
    /// Reads `a=1&b=2`, percent-encoded, `+` for a space.
    pub(crate) fn parse(query: &[u8]) -> Self {
        let decode = |part: Option<&[u8]>| {
            let part = part.unwrap_or_default().iter();
            let spaced: Vec<u8> = part.map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
            percent_decode(&spaced).collect::<Vec<u8>>()
        };
        let pair = |pair: &[u8]| {
            let mut parts = pair.splitn(2, |byte| *byte == b'=');
            (String::from_utf8_lossy(&decode(parts.next())).into_owned(), decode(parts.next()))
        };
        Self(query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(pair).collect())
    }

    /// Parameters from pairs; those without a value are left out.
    pub(crate) fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, Vec<u8>)>) -> Self {
        let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        Self(pairs.map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Notes the parameters for the audit trail.
    pub(crate) fn note(&self, facts: Option<&RequestFacts>) {
        if let Some(facts) = facts {
            facts.add_details(self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice())));
        }
    }

    /// Refuses parameters that the call does not have. Otherwise a misspelt `form` would be ignored, and the search
    /// start an hour ago.
    pub(crate) fn reject_unknown(&self, known: &[&str]) -> Result<(), ApiError> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) => {
                Err(ApiError::bad_request(format!("unknown parameter `{name}`: this call takes {}", known.join(", "))))
            }
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let value = self.bytes(name).map(str::from_utf8).transpose();
        value.map_err(|_| ApiError::bad_request(format!("parameter `{name}` is not UTF-8")))
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(move |(have, _)| have == name).map(|(_, value)| value.as_slice())
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let number = self.non_empty(name)?.map(str::parse).transpose();
        number.map_err(|_| ApiError::bad_request(format!("parameter `{name}` is not a whole number")))
    }

    fn non_empty(&self, name: &str) -> Result<Option<&str>, ApiError> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()))
    }

    /// The filter in `q`.
    pub(crate) fn expr(&self) -> Result<Expr, ApiError> {
        Expr::parse(self.bytes("q").unwrap_or_default()).map_err(|error| ApiError::bad_request(format!("q: {error}")))
    }

    /// The zone of times that state none; UTC by default.
    fn zone(&self) -> Result<TimeZone, ApiError> {
        let zone = self.non_empty("tz")?.map(time::parse_zone).transpose();
        Ok(zone.map_err(|error| ApiError::bad_request(format!("tz: {error}")))?.unwrap_or(TimeZone::UTC))
    }

    fn moment(&self, name: &str, now: Millis, zone: &TimeZone) -> Result<Option<Millis>, ApiError> {
        let moment = self.non_empty(name)?.map(|text| time::parse_timestamp(text, now, zone)).transpose();
        moment.map_err(|error| ApiError::bad_request(format!("{name}: {error}")))
    }

    /// A request of a client, within the streams that exist for it; of the last hour by default. The default of `to` includes records whose time is ahead of this node's
    /// clock, so that every accepted record is found.
    pub(crate) fn request(&self, client: &ClientAccess, now: Millis, order: Order) -> Result<Request, ApiError> {
        let zone = self.zone()?;
        let from = self.moment("from", now, &zone)?.unwrap_or(now.saturating_sub(3_600_000));
        let to = self.moment("to", now, &zone)?.unwrap_or(now.saturating_add(Millis::AHEAD_MS_MAX + 1));
        if from > to {
            return Err(ApiError::bad_request("from is later than to"));
        }
        let order = match self.text("order")?.unwrap_or_default() {
            "" => order,
            "asc" => Order::Ascending,
            "desc" => Order::Descending,
            other => return Err(ApiError::bad_request(format!("order is asc or desc, not `{other}`"))),
        };
        let request = Request::new(self.expr()?, from, to).within(client.scope().cloned());
        let request = Request { order, limit: self.number("limit")?, ..request };
        Ok(match self.id("after")? {
            Some(id) => request.after(id),
            None => request,
        })
    }

    /// A time range of an erasure: by default all earlier records. It may not reach into the future by more than the clocks of
    /// senders do.
    pub(crate) fn past_range(&self, now: Millis) -> Result<(Millis, Millis), ApiError> {
        let zone = self.zone()?;
        let from = self.moment("from", now, &zone)?.unwrap_or(Millis(0));
        let to = self.moment("to", now, &zone)?.unwrap_or(now.saturating_add(1));
        if from > to {
            return Err(ApiError::bad_request("from is later than to"));
        }
        if to > now.saturating_add(Millis::AHEAD_MS_MAX + 1) {
            return Err(ApiError::bad_request("to is in the future: only records that exist can be erased"));
        }
        Ok((from, to))
    }

    pub(crate) fn id(&self, name: &str) -> Result<Option<Id>, ApiError> {
        let id = self.non_empty(name)?.map(str::parse).transpose();
        id.map_err(|error| ApiError::bad_request(format!("{name}: {error}")))
    }
}

/// The parameters of the query string, then those of a form in the body.
impl<S: Send + Sync> FromRequest<S> for Params {
    type Rejection = Response;

    async fn from_request(request: http::Request<Body>, state: &S) -> Result<Self, Response> {
        let mut params = Self::parse(request.uri().query().unwrap_or_default().as_bytes());
        let kind = request.headers().get(header::CONTENT_TYPE);
        let form = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
        let facts = RequestFacts::of(request.extensions()).cloned();
        let body = Bytes::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        if !body.is_empty() && !form {
            let message = "a body must be a form: Content-Type: application/x-www-form-urlencoded";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into_response());
        }
        params.0.extend(Self::parse(&body).0);
        params.note(facts.as_ref());
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parameters_decode_to_bytes() {
        let params = Params::parse(b"q=%ff+a%26b&label=a%3D1&label=b=2&limit=7&empty&&x=");
        assert_eq!(params.bytes("q"), Some(&b"\xff a&b"[..]));
        assert_eq!(params.all("label").collect::<Vec<_>>(), [b"a=1", b"b=2"]);
        assert_eq!(params.number("limit").unwrap(), Some(7));
        assert_eq!((params.bytes("empty"), params.bytes("none")), (Some(&b""[..]), None));
        assert!(params.reject_unknown(&["q", "label", "limit", "empty", "x"]).is_ok());
        assert!(params.reject_unknown(&["q"]).is_err());
        assert!(Params::parse(b"limit=x").number("limit").is_err());
    }

    #[test]
    fn spans_default_to_the_last_hour() {
        let now = Millis(1_700_000_000_000);
        let request = |query: &[u8]| Params::parse(query).request(&ClientAccess::default(), now, Order::Ascending);
        let default = request(b"").unwrap();
        assert_eq!(default.from.time(), Millis(now.0 - 3_600_000));
        assert!(default.to.time() > now.saturating_add(Millis::AHEAD_MS_MAX));
        assert_eq!(request(b"from=15m&to=5m").unwrap().to.time(), Millis(now.0 - 300_000));
        assert!(request(b"from=1m&to=5m").is_err());
        assert!(request(b"from=someday").is_err());
        assert!(request(b"order=up").is_err());
        assert!(request(b"q=%28").is_err());
    }

    /// Decodes byte by byte, as the URL standard says for `application/x-www-form-urlencoded`.
    fn naive_pairs(query: &[u8]) -> Vec<(String, Vec<u8>)> {
        let decode = |part: &[u8]| {
            let (mut out, mut rest) = (Vec::new(), part);
            while let Some((byte, tail)) = rest.split_first() {
                let hex = tail.get(..2).and_then(|digits| str::from_utf8(digits).ok());
                let hex = hex.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
                rest = match (byte, hex) {
                    (b'%', Some(digits)) => {
                        out.push(u8::from_str_radix(digits, 16).unwrap());
                        &tail[2..]
                    }
                    _ => {
                        out.push(if *byte == b'+' { b' ' } else { *byte });
                        tail
                    }
                };
            }
            out
        };
        let mut pairs = Vec::new();
        for pair in query.split(|byte| *byte == b'&') {
            if pair.is_empty() {
                continue;
            }
            let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let value = pair.get(end + 1..).unwrap_or_default();
            pairs.push((String::from_utf8_lossy(&decode(&pair[..end])).into_owned(), decode(value)));
        }
        pairs
    }

    fn encode(bytes: &[u8], style: u8) -> Vec<u8> {
        let mut out = Vec::new();
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b' ' if style == 0 => out.push(b'+'),
                byte if byte.is_ascii_alphanumeric() && style != 2 => out.push(*byte),
                byte if at % 2 == 0 => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
                byte => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            }
        }
        out
    }

    proptest! {
        #[test]
        fn any_query_string_parses_like_the_naive_decoder(
            query in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"%+&=a2fF".to_vec())], 0..40),
        ) {
            prop_assert_eq!(Params::parse(&query).0, naive_pairs(&query));
        }

        #[test]
        fn encoded_pairs_round_trip(
            pairs in prop::collection::vec(("[a-z]{1,6}", prop::collection::vec(any::<u8>(), 0..12), 0_u8..3), 0..6),
        ) {
            let encoded = pairs.iter().map(|(name, value, style)| [name.as_bytes(), b"=", &encode(value, *style)].concat());
            let params = Params::parse(&encoded.collect::<Vec<_>>().join(&b'&'));
            for (name, ..) in &pairs {
                let all = pairs.iter().filter(|(other, ..)| other == name).map(|(_, value, _)| value.as_slice());
                prop_assert_eq!(params.all(name).collect::<Vec<_>>(), all.collect::<Vec<_>>());
                prop_assert_eq!(params.bytes(name), params.all(name).next());
            }
            let known: Vec<&str> = pairs.iter().map(|(name, ..)| name.as_str()).collect();
            prop_assert!(params.reject_unknown(&known).is_ok());
            prop_assert_eq!(params.reject_unknown(&known[1.min(known.len())..]).is_err(), {
                known.first().is_some_and(|first| !known[1..].contains(first))
            });
        }

        #[test]
        fn requests_have_the_bounds_that_were_asked_for(
            (from, to) in (prop::option::of(0_u64..3_000_000_000), prop::option::of(0_u64..3_000_000_000)),
            limit in prop::option::of(any::<u64>()),
            order in prop::sample::select(vec!["", "asc", "desc"]),
            after in prop::option::of(any::<u128>()),
        ) {
            let now = Millis(1_700_000_000_000);
            let mut query = format!("order={order}");
            let mut add = |name: &str, value: Option<String>| {
                if let Some(value) = value {
                    query.push_str(&format!("&{name}={value}"));
                }
            };
            add("from", from.map(|seconds| seconds.to_string()));
            add("to", to.map(|seconds| seconds.to_string()));
            add("limit", limit.map(|limit| limit.to_string()));
            add("after", after.map(|id| Id::from_bits(id).to_string()));
            let request = Params::parse(query.as_bytes()).request(&ClientAccess::default(), now, Order::Descending);
            let lower = from.map_or(now.0 - 3_600_000, |seconds| seconds * 1_000);
            let upper = to.map_or(now.0 + Millis::AHEAD_MS_MAX + 1, |seconds| seconds * 1_000);
            if lower > upper {
                prop_assert!(request.is_err());
                return Ok(());
            }
            let request = request.unwrap();
            let is_ascending = order == "asc";
            prop_assert_eq!(request.order, if is_ascending { Order::Ascending } else { Order::Descending });
            prop_assert_eq!(request.limit, limit);
            // An id is in the request exactly if its time is in the span and it follows `after`.
            let near = [lower, upper].into_iter().flat_map(|ms| {
                let first = Id::first_at(Millis(ms)).bits();
                [first.saturating_sub(1), first, first + 1]
            });
            let probes = near.chain(after.into_iter().flat_map(|id| [id.saturating_sub(1), id, id.saturating_add(1)]));
            for id in probes.map(Id::from_bits) {
                let in_span = (lower..upper).contains(&id.time().0);
                let follows = after.is_none_or(|after| if is_ascending { id.bits() > after } else { id.bits() < after });
                // No id follows the highest one.
                if after != Some(u128::MAX) {
                    prop_assert_eq!((request.from..request.to).contains(&id), in_span && follows, "{}", id);
                }
            }
        }
    }
}
