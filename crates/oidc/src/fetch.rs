//! Small documents over HTTP, from a provider.

use std::time::Duration;

use bucksaw_tls::ClientTls;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Largest document in bytes.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// Why a provider did not answer as expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The address is none.
    #[error("{0} is no address of HTTP")]
    Url(String),
    /// It cannot be reached.
    #[error("cannot reach {0}: {1}")]
    Connect(String, String),
    /// It does not answer in time.
    #[error("{0} does not answer within {limit} s", limit = TIMEOUT.as_secs())]
    Timeout(String),
    /// It answers with an error.
    #[error("{0} answers with status {1}")]
    Status(String, StatusCode),
    /// The answer broke off, or is too long.
    #[error("the answer of {0} cannot be read: {1}")]
    Answer(String, String),
}

/// A request: `GET`, or `POST` of a form.
#[derive(Debug)]
pub(crate) struct FormRequest<'a> {
    pub(crate) url: &'a str,
    pub(crate) form: Option<String>,
    pub(crate) authorization: Option<HeaderValue>,
}

/// The body of the answer to a request. Redirects are not followed: where a provider is, its own document says.
pub(crate) async fn fetch(request: FormRequest<'_>, tls: &ClientTls) -> Result<Bytes, DocumentError> {
    let url = request.url.to_owned();
    timeout(TIMEOUT, exchange(request, tls)).await.map_err(|_| DocumentError::Timeout(shown(&url)))?
}

/// A URL without its query.
fn shown(url: &str) -> String {
    url.split('?').next().unwrap_or_default().to_owned()
}

async fn exchange(request: FormRequest<'_>, tls: &ClientTls) -> Result<Bytes, DocumentError> {
    let address = || shown(request.url);
    let uri: Uri = request.url.parse().map_err(|_| DocumentError::Url(address()))?;
    let is_encrypted = uri.scheme_str() == Some("https");
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
    let authority = authority.ok_or_else(|| DocumentError::Url(address()))?;
    let host = authority.host();
    let port = authority.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
    let failed = |error: &dyn std::fmt::Display| DocumentError::Connect(address(), error.to_string());
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let socket = TcpStream::connect((bare, port)).await.map_err(|error| failed(&error))?;
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let mut head = Request::builder().uri(target).header(HOST, authority.as_str()).header(ACCEPT, "application/json");
    head = head.header(USER_AGENT, concat!("bucksaw/", env!("CARGO_PKG_VERSION")));
    if let Some(authorization) = request.authorization.clone() {
        head = head.header(AUTHORIZATION, authorization);
    }
    let head = match &request.form {
        Some(_) => head.method("POST").header(CONTENT_TYPE, "application/x-www-form-urlencoded"),
        None => head,
    };
    let body = Full::new(Bytes::from(request.form.clone().unwrap_or_default()));
    let message = head.body(body).map_err(|_| DocumentError::Url(address()))?;
    let (status, body) = if is_encrypted {
        let socket = tls.connect(host, socket).await.map_err(|failure| failed(&failure))?;
        send(socket, message).await
    } else {
        send(socket, message).await
    }
    .map_err(|error| DocumentError::Answer(address(), error))?;
    if status == StatusCode::OK { Ok(body) } else { Err(DocumentError::Status(address(), status)) }
}

async fn send(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    message: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), String> {
    let (mut sender, driver) = http1::handshake(TokioIo::new(socket)).await.map_err(|error| error.to_string())?;
    let driver = tokio::spawn(driver);
    let response = sender.send_request(message).await.map_err(|error| error.to_string())?;
    let status = response.status();
    let body = Limited::new(response.into_body(), DOCUMENT_BYTES_MAX).collect().await;
    driver.abort();
    Ok((status, body.map_err(|error| error.to_string())?.to_bytes()))
}
