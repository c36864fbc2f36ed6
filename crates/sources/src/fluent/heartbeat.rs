//! Answers heartbeats over UDP: older senders use them to check that the listener is alive.

use bucksaw_env::Clock;
use tokio::net::UdpSocket;
use tokio::sync::watch;

use std::sync::Arc;

use crate::stop_watch::StopWatch;

/// Answers each datagram with one byte until `stop` is true or its sender is dropped.
pub async fn serve_heartbeats(socket: UdpSocket, clock: Arc<dyn Clock>, stop: watch::Receiver<bool>) {
    let mut stop = StopWatch::new(stop, clock);
    // The content does not matter, so nothing beyond the buffer is needed.
    let mut buffer = [0; 64];
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut buffer) => received,
            () = stop.wait() => return,
        };
        // An error belongs to an earlier answer.
        if let Ok((_, sender)) = received {
            let _ = socket.send_to(b"\0", sender).await;
        }
    }
}
