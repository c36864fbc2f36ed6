//! The proof that a sender has the shared key, or is a known user.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::time::Duration;

use bucksaw_auth::{AuthRefusalReason, ClientAccess, SecretText};
use bucksaw_protocols::fluent::{FluentHandshake, FluentUser};
use tokio::time::timeout;

use super::connection_end::FluentEnd;
use super::inbox::FluentInbox;
use crate::client_check::PresentedClient;
use crate::listener_state::ListenerState;
use crate::shared_key::SharedKey;
use crate::socket::Socket;
use crate::socket_reader::SocketReader;

/// The maximum time of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The name of the listener. Fluentd refuses a listener that has its own name, the name of the machine.
const NAME: &str = "bucksaw";

/// Recognises a sender: asks for its proof of the shared key, if there is one, and for its user, if the node authenticates and
/// does not know the certificate of the sender.
pub(super) async fn check(
    socket: &Socket,
    feed: &mut SocketReader<'_>,
    shared: &ListenerState,
    inbox: &mut FluentInbox<'_>,
    (presented, key): (PresentedClient<'_>, Option<&SharedKey>),
) -> Result<ClientAccess, FluentEnd> {
    let known = match (shared.authenticates(), presented.certificate) {
        (true, None) => None,
        _ => shared.recognise(presented, None).await.ok(),
    };
    if key.is_none()
        && let Some(client) = known
    {
        return Ok(client);
    }
    let mut handshake = FluentHandshake::new(key.map_or(&[], SharedKey::bytes), NAME, random(shared));
    if known.is_none() {
        handshake = handshake.asking_for_user(random(shared));
    }
    inbox.limit(FluentHandshake::PING_BYTES_MAX);
    let (mut client, mut is_counted) = (known, false);
    let checked = timeout(HANDSHAKE_TIMEOUT, async {
        socket.write_all(&handshake.helo()).await.map_err(|_| FluentEnd::Unreachable)?;
        let ping = inbox.next(feed).await?;
        let mut delay = Duration::ZERO;
        let pong = handshake.answer(ping, |user| {
            is_counted = true;
            match recognise_user(shared, presented, key.is_some(), user) {
                Ok(found) => client = Some(found),
                Err(refused) => delay = refused,
            }
            client.is_some()
        })?;
        tokio::time::sleep(delay).await;
        socket.write_all(&pong.answer).await.map_err(|_| FluentEnd::Unreachable)?;
        if pong.is_accepted {
            Ok(())
        } else {
            Err(FluentEnd::Sender("the sender has another shared key, or no valid user"))
        }
    });
    let checked = checked.await;
    if client.is_none()
        && !is_counted
        && let Some(authenticator) = &shared.authenticator
    {
        shared.refuse(authenticator, presented.peer.ip(), AuthRefusalReason::Missing);
    }
    checked.map_err(|_| FluentEnd::Sender("the sender does not prove in time who it is"))??;
    inbox.limit(shared.config.message_bytes());
    client.ok_or(FluentEnd::Sender("the sender is not recognised"))
}

/// The client of a user, or else of the shared key, which the sender has proven to know; else the delay of the refusal.
fn recognise_user(
    shared: &ListenerState,
    presented: PresentedClient<'_>,
    has_key: bool,
    user: &FluentUser<'_>,
) -> Result<ClientAccess, Duration> {
    let Some(authenticator) = &shared.authenticator else { return Ok(ClientAccess::default()) };
    let (listener, peer) = (shared.setup.name, presented.peer.ip());
    let grant = match user.name {
        "" if has_key => authenticator.shared_key_grant(listener),
        "" => return Err(shared.refuse(authenticator, peer, AuthRefusalReason::Missing).delay),
        name => {
            let has_password = |password: &SecretText| user.has_password(password.expose());
            let grant = authenticator.authenticate_fluentd(listener, peer, name, has_password);
            grant.map_err(|refusal| {
                shared.audit_refusal(peer, None, refusal.reason);
                refusal.delay
            })?
        }
    };
    shared.writing_client(presented.peer, grant).map_err(|_| Duration::ZERO)
}

/// Bytes for one connection: a nonce or a salt.
fn random(shared: &ListenerState) -> [u8; 16] {
    let mut bytes = [0; 16];
    for half in bytes.chunks_exact_mut(8) {
        half.copy_from_slice(&shared.intake.env.entropy.next_u64().to_le_bytes());
    }
    bytes
}
