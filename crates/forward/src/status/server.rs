//! The HTTP listener of an agent: `/metrics`, `/status`, `/-/healthy` and `/-/ready`.
//!
//! It only answers GET and changes nothing. A browser sends requests to it for any page that its user visits, and a page may point
//! its own name at the agent, so `Host` must be an address, `localhost` or the name of the machine.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bucksaw_env::wait_for_stop;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::agent_info::AgentInfo;
use super::agent_status::AgentStatus;
use super::json::status_json;
use super::metrics::{FILE_SERIES_MAX, MEDIA_TYPE, metrics_text};
use super::monitor::AgentMonitor;

/// The most connections at the same time. Further ones are closed at once.
const CONNECTIONS_MAX: usize = 16;

/// The most files that `/status` lists.
const FILES_MAX: usize = 1_000;

/// Time limit for the head of a request, and of an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest head of a request, in bytes.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

#[derive(Clone)]
struct StatusRoutes {
    monitor: AgentMonitor,
    info: Arc<AgentInfo>,
}

/// Serves the state of an agent on a listener until the stop.
pub async fn serve_status(
    listener: TcpListener,
    monitor: AgentMonitor,
    info: AgentInfo,
    mut stop: watch::Receiver<bool>,
) {
    let routes = router(StatusRoutes { monitor, info: Arc::new(info) });
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = wait_for_stop(&mut stop) => return,
        };
        match (accepted, Arc::clone(&slots).try_acquire_owned()) {
            (Ok((stream, _)), Ok(slot)) => {
                let serving = serve_connection(stream, routes.clone());
                tokio::spawn(async move {
                    serving.await;
                    drop(slot);
                });
            }
            (Ok(_), Err(_)) => {}
            // The process has no free descriptor.
            (Err(_), _) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, routes: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEADER_BYTES_MAX);
    // A client that disconnects or sends no HTTP is not reported: it is no fault of the agent.
    drop(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes)).await);
}

fn router(state: StatusRoutes) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/-/healthy", get(|| async { "healthy\n" }))
        .route("/-/ready", get(ready))
        .fallback(|| async { (StatusCode::NOT_FOUND, "GET /metrics, /status, /-/healthy or /-/ready\n") })
        .layer(from_fn_with_state(state.clone(), check_host))
        .with_state(state)
}

async fn check_host(State(state): State<StatusRoutes>, request: Request, next: Next) -> Response {
    match is_allowed(request.headers(), &state.info.host) {
        true => next.run(request).await,
        false => {
            (StatusCode::MISDIRECTED_REQUEST, "ask by address, localhost or the name of the machine\n").into_response()
        }
    }
}

/// Whether a request is not from a page that uses a name of its own for this address.
fn is_allowed(headers: &HeaderMap, own_name: &str) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (None, _) => return true,
        (Some(host), None) => host.to_str().unwrap_or_default(),
        (Some(_), Some(_)) => return false,
    };
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(address, _)| address);
    let name = bracketed.unwrap_or_else(|| host.rsplit_once(':').map_or(host, |(name, _)| name));
    let name = name.trim_end_matches('.');
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || !own_name.is_empty() && name.eq_ignore_ascii_case(own_name)
}

/// The state, read on a thread that may block.
async fn read_status(state: &StatusRoutes, files_max: usize) -> Result<AgentStatus, Response> {
    let monitor = state.monitor.clone();
    let status = spawn_blocking(move || monitor.status(files_max)).await.ok().flatten();
    status.ok_or_else(|| (StatusCode::SERVICE_UNAVAILABLE, "not started yet\n").into_response())
}

async fn metrics(State(state): State<StatusRoutes>) -> Result<Response, Response> {
    let status = read_status(&state, FILE_SERIES_MAX).await?;
    let text = metrics_text(status, &state.info).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())?;
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response())
}

async fn status(State(state): State<StatusRoutes>) -> Result<Response, Response> {
    let status = read_status(&state, FILES_MAX).await?;
    Ok(Json(status_json(&status, &state.info)).into_response())
}

async fn ready(State(state): State<StatusRoutes>) -> Result<Response, Response> {
    let status = read_status(&state, 0).await?;
    if status.is_ready() {
        return Ok("ready\n".into_response());
    }
    let text = format!(
        "no node has accepted a connection for {} s: {}\n",
        status.unaccepted().as_secs(),
        status.last_error.as_deref().unwrap_or("not tried yet")
    );
    Err((StatusCode::SERVICE_UNAVAILABLE, text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_with_a_name_of_its_own_is_refused() {
        let check = |host: &[&str], want: bool| {
            let mut headers = HeaderMap::new();
            for host in host {
                headers.append(header::HOST, host.parse().unwrap());
            }
            assert_eq!(is_allowed(&headers, "web-1"), want, "{host:?}");
        };
        check(&[], true);
        for host in ["127.0.0.1:9", "10.0.0.1", "[::1]:9", "localhost:9", "LOCALHOST", "web-1:9", "WEB-1."] {
            check(&[host], true);
        }
        for host in ["evil.example:9", "web-1.evil.example", "127.0.0.1.evil.example", "", "[::1"] {
            check(&[host], false);
        }
        check(&["127.0.0.1", "evil.example"], false);
    }
}
