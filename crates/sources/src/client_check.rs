//! Recognises the client of a connection that is not HTTP.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bucksaw_auth::{
    AccessScope, AuthRefusal, AuthRefusalReason, Authenticator, CertificateNames, ClientAccess, Grant, Presented,
    SecretText,
};
use bucksaw_env::log_limited;
use tracing::debug;

use crate::audit::{AuditEntry, AuditOutcome};
use crate::listener_state::ListenerState;

/// How a client presents itself on a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PresentedClient<'a> {
    pub(crate) peer: SocketAddr,
    pub(crate) certificate: Option<CertificateNames<'a>>,
}

impl ListenerState {
    /// Whether clients must present a credential.
    pub(crate) fn authenticates(&self) -> bool {
        self.authenticator.is_some()
    }

    /// Recognises a client that may write records, by its token or else by its certificate. A refusal is counted, and returned
    /// after its delay.
    pub(crate) async fn recognise(
        &self,
        client: PresentedClient<'_>,
        token: Option<&SecretText>,
    ) -> Result<ClientAccess, AuthRefusalReason> {
        let Some(authenticator) = &self.authenticator else { return Ok(ClientAccess::default()) };
        let (listener, peer) = (self.setup.name, client.peer.ip());
        let presented = Presented { token, certificate: client.certificate, user: None };
        match authenticator.authenticate(listener, peer, &presented) {
            Ok(grant) => self.writing_client(client.peer, grant),
            Err(refusal) => {
                self.audit_refusal(peer, None, refusal.reason);
                debug!(%peer, listener, reason = refusal.reason.name(), "connection refused");
                tokio::time::sleep(refusal.delay).await;
                Err(refusal.reason)
            }
        }
    }

    /// Counts and logs a refusal, and notes it in the audit trail.
    pub(crate) fn refuse(&self, by: &Authenticator, peer: IpAddr, reason: AuthRefusalReason) -> AuthRefusal {
        self.audit_refusal(peer, None, reason);
        by.refuse(self.setup.name, peer, reason)
    }

    /// Notes a refusal in the audit trail. `who` is the name of the credential, if it is known.
    pub(crate) fn audit_refusal(&self, peer: IpAddr, who: Option<&str>, reason: AuthRefusalReason) {
        let Some(trail) = &self.audit else { return };
        let client = peer.to_canonical().to_string();
        trail.record(&AuditEntry {
            action: "connect",
            who,
            client: Some(&client),
            outcome: AuditOutcome::Refused,
            details: &[("listener", self.setup.name), ("reason", reason.name())],
        });
    }

    /// Logs that a connection ends because its credential was revoked or changed, or has expired.
    pub(crate) fn count_ended_credential(&self, client: &ClientAccess) {
        let name = client.name().unwrap_or_default();
        log_limited!(
            self.log_limits,
            warn,
            listener = self.setup.name,
            name,
            "connection closed: its credential is no longer valid"
        );
    }

    /// The client of a grant, if it may write records without naming a tenant.
    pub(crate) fn writing_client(
        &self,
        peer: SocketAddr,
        grant: Arc<Grant>,
    ) -> Result<ClientAccess, AuthRefusalReason> {
        let name = grant.principal().name.clone();
        let client = ClientAccess::new(grant, None);
        let reason = match &client {
            Ok(client) if client.has(AccessScope::Ingest) => None,
            Ok(_) => Some(AuthRefusalReason::Scope),
            Err(_) => Some(AuthRefusalReason::Tenant),
        };
        match (client, reason, &self.authenticator) {
            (Ok(client), None, _) => Ok(client),
            (_, reason, authenticator) => {
                let reason = reason.unwrap_or(AuthRefusalReason::Tenant);
                self.audit_refusal(peer.ip(), Some(&name), reason);
                if let Some(authenticator) = authenticator {
                    authenticator.refuse(self.setup.name, peer.ip(), reason);
                }
                Err(reason)
            }
        }
    }
}
