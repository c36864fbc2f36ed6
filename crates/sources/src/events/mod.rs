//! Protocols of other log systems over TCP, UDP and Unix datagram sockets.
//!
//! ```text
//!   TCP       chunk ────► StreamDecoder ───┐
//!                                          ├─► EventRecords ─► queue
//!   datagram  message ──► DatagramDecoder ─┘
//! ```
//! These protocols have no acknowledgements. What the queue refuses is kept and appended again, and meanwhile nothing is read:
//! a TCP sender waits, and the kernel drops datagrams, which is counted.

mod connection;
mod datagram_socket;
mod datagrams;
mod decoder;
mod gelf;
mod kernel_drops;
mod protocol;
mod syslog;

pub(crate) use connection::run;
pub use datagram_socket::DatagramSocket;
pub use datagrams::serve_datagrams;
