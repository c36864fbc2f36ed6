//! TCP options of client connections.

use std::net::SocketAddr;

use tokio::net::TcpStream;

/// Disables Nagle's algorithm, and pacing to clients on this machine. Pacing (BBR, the default of some systems)
/// protects queues on the network; over loopback its timers only cost a third of the CPU time of a large answer.
pub(crate) fn prepare(stream: &TcpStream, peer: SocketAddr) {
    // Both only make answers faster.
    let _ = stream.set_nodelay(true);
    if peer.ip().to_canonical().is_loopback() {
        disable_pacing(stream);
    }
}

/// Every Linux has Reno and lets every process choose it.
#[cfg(target_os = "linux")]
fn disable_pacing(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_tcp_congestion(stream, "reno");
}

#[cfg(not(target_os = "linux"))]
fn disable_pacing(_: &TcpStream) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "connects two real sockets")]

    use rustix::net::sockopt::tcp_congestion;

    use super::*;

    #[tokio::test]
    async fn pacing_is_disabled_to_clients_on_this_machine_only() {
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
