//! One connection to the API server, and the answers on it.
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, RETRY_AFTER, USER_AGENT};
use hyper::rt::{Read, Write};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::ApiAddress;
use crate::credentials::Credentials;
use crate::server_error::ApiServerError;
use crate::watch_event::{GONE, refusal};

/// After this time without a byte the kernel asks whether the server is still there, three times.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The longest answer with an error that is read, in bytes.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// A connection for one request after the other.
pub(crate) struct ApiConnection {
    sender: SendRequest<Empty<Bytes>>,
    host: String,
    prefix: String,
    /// Sends and receives until the connection is dropped.
    _driver: JoinSet<()>,
}

/// The body of an answer.
pub(crate) struct ApiBody(Incoming);

impl ApiConnection {
    /// Connects within a time limit.
    pub(crate) async fn open(
        api: &ApiAddress,
        credentials: &Credentials,
        limit: Duration,
    ) -> Result<Self, ApiServerError> {
        timeout(limit, Self::connect(api, credentials)).await.map_err(|_| ApiServerError::Timeout("connecting"))?
    }

    async fn connect(api: &ApiAddress, credentials: &Credentials) -> Result<Self, ApiServerError> {
        let tls = api.is_tls.then(|| credentials.tls()).transpose()?;
        let socket = TcpStream::connect((api.host.as_str(), api.port)).await.map_err(ApiServerError::Connect)?;
        keep_alive(&socket).map_err(ApiServerError::Connect)?;
        let Some(tls) = tls else { return Self::handshake(api, TokioIo::new(socket)).await };
        let name = ServerName::try_from(api.host.clone()).map_err(|error| ApiServerError::Tls(error.to_string()))?;
        let stream = TlsConnector::from(tls).connect(name, socket).await;
        Self::handshake(api, TokioIo::new(stream.map_err(|error| ApiServerError::Tls(error.to_string()))?)).await
    }

    async fn handshake(
        api: &ApiAddress,
        io: impl Read + Write + Unpin + Send + 'static,
    ) -> Result<Self, ApiServerError> {
        let (sender, connection) = http1::handshake(io).await?;
        let mut driver = JoinSet::new();
        // An error also ends the answer that is being read.
        driver.spawn(async move { drop(connection.await) });
        Ok(Self { sender, host: api.authority(), prefix: api.prefix.clone(), _driver: driver })
    }

    /// Requests a resource; returns the body of a success.
    pub(crate) async fn get(
        &mut self,
        (target, accept): (&str, &str),
        credentials: &Credentials,
        limit: Duration,
    ) -> Result<ApiBody, ApiServerError> {
        let mut request = Request::get(format!("{}{target}", self.prefix))
            .header(HOST, &self.host)
            .header(ACCEPT, accept)
            .header(USER_AGENT, concat!("bucksaw/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = credentials.authorization()? {
            request = request.header(AUTHORIZATION, authorization);
        }
        // The address was parsed as a URL, and all else is escaped.
        let request = request.body(Empty::new()).map_err(|error| ApiServerError::Connect(io::Error::other(error)))?;
        let answer = timeout(limit, self.sender.send_request(request)).await;
        let answer = answer.map_err(|_| ApiServerError::Timeout("the answer"))??;
        let status = answer.status();
        if status == StatusCode::OK {
            return Ok(ApiBody(answer.into_body()));
        }
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let mut body = ApiBody(answer.into_body());
        // What cannot be read of it is not needed.
        let text = body.read(ERROR_BYTES_MAX, limit).await.ok().flatten().unwrap_or_default();
        let (code, message) = refusal(&text);
        match status.as_u16() == GONE || code == GONE {
            true => Err(ApiServerError::Expired),
            false => Err(ApiServerError::Status { code: status.as_u16(), message, retry_after }),
        }
    }
}

impl ApiBody {
    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self, limit: Duration) -> Result<Option<Bytes>, ApiServerError> {
        loop {
            let frame = timeout(limit, self.0.frame()).await.map_err(|_| ApiServerError::Timeout("the next event"))?;
            let Some(frame) = frame else { return Ok(None) };
            // The other frames are trailers.
            if let Ok(bytes) = frame?.into_data() {
                return Ok(Some(bytes));
            }
        }
    }

    /// The whole body; `None` if it is longer than `bytes_max`.
    pub(crate) async fn read(&mut self, bytes_max: usize, limit: Duration) -> Result<Option<Vec<u8>>, ApiServerError> {
        let read = async {
            let mut all = Vec::new();
            while let Some(bytes) = self.next(limit).await? {
                if all.len() + bytes.len() > bytes_max {
                    return Ok(None);
                }
                all.extend_from_slice(&bytes);
            }
            Ok(Some(all))
        };
        timeout(limit, read).await.map_err(|_| ApiServerError::Timeout("the answer"))?
    }
}

/// A server that has vanished is noticed, although nothing is sent to it.
#[cfg(target_os = "linux")]
fn keep_alive(socket: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE / 3)?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    Ok(())
}

/// A server that has vanished is noticed after the time of the system.
#[cfg(not(target_os = "linux"))]
fn keep_alive(socket: &TcpStream) -> io::Result<()> {
    rustix::net::sockopt::set_socket_keepalive(socket, true)?;
    Ok(())
}
