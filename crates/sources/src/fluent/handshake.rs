//! The proof that a sender has the shared key.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::time::Duration;

use bucksaw_protocols::fluent::FluentHandshake;
use tokio::time::timeout;

use super::connection_end::FluentEnd;
use super::inbox::FluentInbox;
use crate::listener_state::ListenerState;
use crate::shared_key::SharedKey;
use crate::socket::Socket;
use crate::socket_reader::SocketReader;

/// The maximum time of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The name of the listener. Fluentd refuses a listener that has its own name, the name of the machine.
const NAME: &str = "bucksaw";

/// Asks a sender for its proof, and answers it.
pub(super) async fn check(
    socket: &Socket,
    feed: &mut SocketReader<'_>,
    shared: &ListenerState,
    inbox: &mut FluentInbox<'_>,
    key: &SharedKey,
) -> Result<(), FluentEnd> {
    let mut nonce = [0; 16];
    for half in nonce.chunks_exact_mut(8) {
        half.copy_from_slice(&shared.intake.env.entropy.next_u64().to_le_bytes());
    }
    let handshake = FluentHandshake::new(key.bytes(), NAME, nonce);
    inbox.limit(FluentHandshake::PING_BYTES_MAX);
    let checked = timeout(HANDSHAKE_TIMEOUT, async {
        socket.write_all(&handshake.helo()).await.map_err(|_| FluentEnd::Unreachable)?;
        let pong = handshake.answer(inbox.next(feed).await?)?;
        socket.write_all(&pong.answer).await.map_err(|_| FluentEnd::Unreachable)?;
        if pong.is_accepted { Ok(()) } else { Err(FluentEnd::Sender("the sender has another shared key")) }
    });
    checked
        .await
        .map_err(|_| FluentEnd::Sender("the sender does not prove in time that it knows the shared key"))??;
    inbox.limit(shared.config.message_bytes());
    Ok(())
}
