//! A request of a sender, and the intake of its body.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bucksaw_auth::ClientAccess;
use bucksaw_ingest::{Durability, Source};
use bucksaw_protocols::{EventSink, HttpAnswer};
use bucksaw_record::Labels;
use bucksaw_sources::http::{BodyChunks, Encoding, EventRequest};
use bucksaw_steering::ListenerKind;

use crate::access::RequestClient;
use crate::app::App;
use crate::error::ApiError;
use crate::ingest_params::{BodyFrames, content_encoding, durability_param, idempotency_key, label_params, media_type};
use crate::params::Params;

/// A request of a sender, before its body is read.
pub(crate) struct SenderRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    pub(crate) client: ClientAccess,
}

impl SenderRequest {
    /// A request that the check of its path has passed on.
    ///
    /// # Errors
    /// None has, which is a bug.
    pub(crate) fn new(request: Request) -> Result<Self, ApiError> {
        let client = RequestClient::of(request.extensions())?;
        let (head, body) = request.into_parts();
        let query = head.uri.query().unwrap_or_default().to_owned();
        Ok(Self { method: head.method, path: head.uri.path().to_owned(), query, headers: head.headers, body, client })
    }

    /// A header that is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether the body is JSON by its media type.
    pub(super) fn is_json(&self) -> bool {
        media_type(&self.headers).is_some_and(|media_type| media_type == "application/json")
    }
}

/// How the body of a request becomes records.
pub(super) struct BodyPlan<'a> {
    pub(super) source: Source,
    /// The encoding, if it is not in the header `Content-Encoding`.
    pub(super) encoding: Option<Encoding>,
    /// A further label besides the parameter `label`.
    pub(super) label: Option<(&'a str, &'a str)>,
}

impl BodyPlan<'_> {
    pub(super) fn of(source: Source) -> Self {
        Self { source, encoding: None, label: None }
    }
}

/// Decodes the body of a request and waits until its records have their durability. Returns the result of `decode`,
/// whose first argument is the labels that all events have.
pub(super) async fn ingest<T: Send + 'static>(
    app: &App,
    plan: BodyPlan<'_>,
    request: SenderRequest,
    decode: impl FnOnce(&Labels, &[u8], &mut dyn EventSink) -> T + Send + 'static,
) -> Result<T, ApiError> {
    refuse_if_overloaded(app)?;
    let params = Params::parse(request.query.as_bytes());
    let plan = EventPlan {
        source: plan.source,
        durability: durability_param(&params)?,
        labels: label_params(&params, plan.label)?,
        encoding: match plan.encoding {
            Some(encoding) => encoding,
            None => content_encoding(&request.headers)?,
        },
        key: idempotency_key(&request.headers)?,
        context: request.query.as_bytes(),
        bytes_min: axum::body::HttpBody::size_hint(&request.body).lower(),
    };
    ingest_chunks(app, &request.client, plan, BodyFrames(request.body), decode).await
}

/// Refuses a request if the node is overloaded and a less loaded one is known.
pub(crate) fn refuse_if_overloaded(app: &App) -> Result<(), ApiError> {
    if app.shedder.refuses_unredirectable(ListenerKind::Http) {
        app.shedder.count_refused();
        return Err(ApiError::too_many_requests("the node is overloaded: send again later, or to another node"));
    }
    Ok(())
}

/// The properties of a body of events before it is read.
pub(super) struct EventPlan<'a> {
    pub(super) source: Source,
    pub(super) encoding: Encoding,
    pub(super) durability: Durability,
    /// The labels that all its events have.
    pub(super) labels: Labels,
    pub(super) key: Option<&'a [u8]>,
    /// Further input that determines the records, besides the body and the labels.
    pub(super) context: &'a [u8],
    /// The minimum length of the body, in bytes.
    pub(super) bytes_min: u64,
}

/// Decodes a body as it arrives; see [`ingest`].
pub(super) async fn ingest_chunks<T: Send + 'static>(
    app: &App,
    client: &ClientAccess,
    plan: EventPlan<'_>,
    body: impl BodyChunks,
    decode: impl FnOnce(&Labels, &[u8], &mut dyn EventSink) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let EventPlan { source, encoding, durability, labels, key, context: other, bytes_min } = plan;
    app.queue().check_accepting()?;
    let mut context = Vec::new();
    labels.encode(&mut context);
    context.extend_from_slice(other);
    let request = EventRequest { source, encoding, durability, key, context: &context, bytes_min };
    let decode = move |body: &[u8], sink: &mut dyn EventSink| decode(&labels, body, sink);
    Ok(app.bodies.of_client(client).ingest_events(request, body, decode).await?)
}

/// An answer with a JSON text.
pub(super) fn json_answer(HttpAnswer { status, body }: HttpAnswer) -> Response {
    answer(status, "application/json", body.into_owned())
}

pub(super) fn answer(status: u16, media_type: &'static str, body: impl Into<Body>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, media_type)], body.into()).into_response()
}
