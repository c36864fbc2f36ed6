//! The listener of an agent's state: few connections, GET only.
//!
//! A browser sends requests to it for any page that its user visits, and a page may point its own name at the agent, so `Host`
//! must be an address, `localhost` or the name of the machine.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use bucksaw_env::wait_for_stop;
use bucksaw_sources::{AcceptedConnection, Acceptor, Socket};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Semaphore, watch};

/// The most connections at the same time. Further ones are closed at once.
const CONNECTIONS_MAX: usize = 16;

/// Time limit for the head of a request, and of an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest head of a request, in bytes.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// Serves these routes until the stop, to requests that name this machine.
pub(super) async fn serve_routes(acceptor: Acceptor, routes: Router, own_name: &str, mut stop: watch::Receiver<bool>) {
    let own_name: Arc<str> = own_name.into();
    let routes = routes.layer(from_fn_with_state(own_name, check_host));
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            (connection, _) = acceptor.accept() => connection,
            () = wait_for_stop(&mut stop) => return,
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else { continue };
        let (routes, stop) = (routes.clone(), stop.clone());
        tokio::spawn(async move {
            let _slot = slot;
            let socket = match accepted {
                AcceptedConnection::Open(socket) => Some(socket),
                AcceptedConnection::Handshake(handshake) => Box::pin(handshake.run(stop)).await,
            };
            if let Some(socket) = socket {
                serve_connection(socket, routes).await;
            }
        });
    }
}

async fn serve_connection(stream: Socket, routes: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEADER_BYTES_MAX);
    // A client that disconnects or sends no HTTP is not reported: it is no fault of the agent.
    drop(http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes)).await);
}

async fn check_host(State(own_name): State<Arc<str>>, request: Request, next: Next) -> Response {
    match is_allowed(request.headers(), &own_name) {
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
