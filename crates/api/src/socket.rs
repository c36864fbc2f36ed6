//! Options of TCP to clients.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::net::SocketAddr;

use tokio::net::TcpStream;

/// Sends at once what there is; and to a client on this machine without a pause. Some systems choose congestion control
/// that paces what it sends (BBR) for all connections. Inside a machine there is no queue on the way that it could spare,
/// and its timers take a third of the CPU that it costs to send a large answer.
pub(crate) fn prepare(stream: &TcpStream, peer: SocketAddr) {
    // Without these an answer is slower, and as right.
    let _ = stream.set_nodelay(true);
    if peer.ip().to_canonical().is_loopback() {
        disable_pacing(stream);
    }
}

/// Reno is the one congestion control that every Linux has and that every process may choose.
#[cfg(target_os = "linux")]
fn disable_pacing(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_tcp_congestion(stream, "reno");
}

#[cfg(not(target_os = "linux"))]
fn send_without_pauses(_: &TcpStream) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::net::sockopt::tcp_congestion;

    use super::*;

    #[tokio::test]
    async fn only_clients_on_this_machine_are_sent_to_without_pauses() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
        let usual = tcp_congestion(&far).unwrap();
        prepare(&far, "192.0.2.1:7650".parse().unwrap());
        assert_eq!(tcp_congestion(&far).unwrap(), usual);
        prepare(&near, "[::ffff:127.0.0.1]:7650".parse().unwrap());
        assert_eq!(tcp_congestion(&near).unwrap(), "reno");
        assert!(near.nodelay().unwrap() && far.nodelay().unwrap());
    }
}
