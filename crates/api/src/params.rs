//! The parameters of a call, from the query string or a form. Values are bytes: a filter may look for any.

use axum::body::{Body, Bytes};
use axum::extract::FromRequest;
use axum::http::{self, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bucksaw_query::{Order, Request};
use bucksaw_record::{Expr, Id, Millis, time};
use percent_encoding::percent_decode;

use crate::error::ApiError;

/// Parameters in the order in which they were given.
#[derive(Debug, Default)]
pub(crate) struct Params(Vec<(String, Vec<u8>)>);

impl Params {
    /// Reads `a=1&b=2`, percent-encoded, `+` for a space.
    pub(crate) fn parse(query: &[u8]) -> Self {
        let pairs = query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
        let decode = |part: &[u8]| {
            let spaced: Vec<u8> = part.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
            percent_decode(&spaced).collect::<Vec<u8>>()
        };
        Self(
            pairs
                .map(|pair| {
                    let mut parts = pair.splitn(2, |byte| *byte == b'=');
                    let name = decode(parts.next().unwrap_or_default());
                    (String::from_utf8_lossy(&name).into_owned(), decode(parts.next().unwrap_or_default()))
                })
                .collect(),
        )
    }

    /// Adds those of a form in the body.
    fn with_form(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    /// Fails when there is a parameter that the call does not know: a misspelt `form` must not mean "from an hour ago".
    pub(crate) fn reject_unknown(&self, known: &[&str]) -> Result<(), ApiError> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) => {
                Err(ApiError::bad_request(format!("unknown parameter `{name}`: this call takes {}", known.join(", "))))
            }
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_slice())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let value = self.bytes(name).map(str::from_utf8).transpose();
        value.map_err(|_| ApiError::bad_request(format!("parameter `{name}` is not UTF-8")))
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(move |(have, _)| have == name).map(|(_, value)| value.as_slice())
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let number = self.text(name)?.filter(|text| !text.is_empty()).map(str::parse).transpose();
        number.map_err(|_| ApiError::bad_request(format!("parameter `{name}` is not a whole number")))
    }

    /// The filter in `q`.
    pub(crate) fn expr(&self) -> Result<Expr, ApiError> {
        Expr::parse(self.bytes("q").unwrap_or_default()).map_err(|error| ApiError::bad_request(format!("q: {error}")))
    }

    fn moment(&self, name: &str, now: Millis) -> Result<Option<Millis>, ApiError> {
        let text = self.text(name)?.filter(|text| !text.is_empty());
        let moment = text.map(|text| time::parse_timestamp(text, now)).transpose();
        moment.map_err(|error| ApiError::bad_request(format!("{name}: {error}")))
    }

    /// The span: `from` an hour ago and `to` now when they are left out. A `to` that is left out takes in what is stamped
    /// a little ahead of this node's clock, so that whatever was accepted is found.
    pub(crate) fn request(&self, now: Millis, order: Order) -> Result<Request, ApiError> {
        let from = self.moment("from", now)?.unwrap_or(now.saturating_sub(3_600_000));
        let to = self.moment("to", now)?.unwrap_or(now.saturating_add(Millis::AHEAD_MS_MAX + 1));
        if from > to {
            return Err(ApiError::bad_request("from is later than to"));
        }
        let limit = self.number("limit")?;
        let order = match self.text("order")?.unwrap_or_default() {
            "" => order,
            "asc" => Order::Ascending,
            "desc" => Order::Descending,
            other => return Err(ApiError::bad_request(format!("order is asc or desc, not `{other}`"))),
        };
        let request = Request { order, limit, ..Request::new(self.expr()?, from, to) };
        Ok(match self.id("after")? {
            Some(id) => request.after(id),
            None => request,
        })
    }

    /// The id of a record.
    pub(crate) fn id(&self, name: &str) -> Result<Option<Id>, ApiError> {
        let id = self.text(name)?.filter(|text| !text.is_empty()).map(str::parse).transpose();
        id.map_err(|error| ApiError::bad_request(format!("{name}: {error}")))
    }
}

/// Those in the query string and, where the body is a form, in that.
impl<S: Send + Sync> FromRequest<S> for Params {
    type Rejection = Response;

    async fn from_request(request: http::Request<Body>, state: &S) -> Result<Self, Response> {
        let params = Self::parse(request.uri().query().unwrap_or_default().as_bytes());
        let kind = request.headers().get(header::CONTENT_TYPE);
        let form = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
        let body = Bytes::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        if body.is_empty() {
            return Ok(params);
        }
        if !form {
            let message = "a body must be a form: Content-Type: application/x-www-form-urlencoded";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into_response());
        }
        Ok(params.with_form(Self::parse(&body)))
    }
}

#[cfg(test)]
mod tests {
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
        let request = |query: &[u8]| Params::parse(query).request(now, Order::Ascending);
        let default = request(b"").unwrap();
        assert_eq!(default.from.time(), Millis(now.0 - 3_600_000));
        assert!(default.to.time() > now.saturating_add(Millis::AHEAD_MS_MAX));
        assert_eq!(request(b"from=15m&to=5m").unwrap().to.time(), Millis(now.0 - 300_000));
        assert!(request(b"from=1m&to=5m").is_err());
        assert!(request(b"from=yesterday").is_err());
        assert!(request(b"order=up").is_err());
        assert!(request(b"q=%28").is_err());
    }
}
