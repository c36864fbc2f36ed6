//! Why a TLS connection failed, for the person who can change it.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError};

/// Why a connection to a server failed. The texts complete a sentence that begins with the server: "cannot reach HOST: …".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFailure {
    /// The certificate of the server has expired.
    #[error("its certificate expired{0}: renew it there, or check the clock of this machine")]
    Expired(String),
    /// It is not valid yet.
    #[error("its certificate is not valid yet: check the clocks of both machines")]
    NotYetValid,
    /// It has other names.
    #[error(
        "its certificate is not for this name, but for {0}: connect by a name of the certificate, or make one with this name"
    )]
    WrongName(String),
    /// No trusted CA has signed it.
    #[error("its certificate was not signed by a CA that is trusted here: name the file of its CA with --ca")]
    UnknownIssuer,
    /// It is the certificate of a CA.
    #[error("its certificate is that of a CA, which is not valid for a server: make one with `bucksaw certs node`")]
    CertificateOfCa,
    /// It has another problem.
    #[error("its certificate cannot be verified: {0}")]
    InvalidCertificate(String),
    /// The server accepts only clients with a certificate.
    #[error("it requires a client certificate: give --cert and --key")]
    CertificateRequired,
    /// The server does not accept the certificate of the client.
    #[error("it refuses the client certificate of --cert: {0}")]
    CertificateRefused(&'static str),
    /// There is no common version or cipher.
    #[error("it has no version or cipher of TLS in common with this program")]
    NoCommonVersion,
    /// The server sent other bytes than those of TLS.
    #[error("it does not speak TLS at this port")]
    NotTls,
    /// The server ended the connection during the handshake.
    #[error("it closed the connection during the TLS handshake: does it speak TLS at this port?")]
    Closed,
    /// Another problem.
    #[error("TLS failed: {0}")]
    Other(String),
}

impl TlsFailure {
    /// The failure behind an error; `None` if TLS is not its cause.
    pub fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<rustls::Error>() {
                return Some(Self::of_rustls(error));
            }
            // The source of such an error is that of the inner one, so the inner one is skipped.
            next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
                Some(inner) => Some(inner),
                None => error.source(),
            };
        }
        None
    }

    /// The failure of a handshake.
    pub(crate) fn of_handshake(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::of(error).unwrap_or_else(|| Self::Other(error.to_string())),
        }
    }

    fn of_rustls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => Self::of_certificate(error),
            rustls::Error::AlertReceived(alert) => Self::of_alert(*alert),
            rustls::Error::InvalidMessage(_) => Self::NotTls,
            rustls::Error::PeerIncompatible(_) => Self::NoCommonVersion,
            error => Self::Other(error.to_string()),
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::Expired => Self::Expired(String::new()),
            CertificateError::ExpiredContext { time, not_after } => {
                let seconds = time.as_secs().saturating_sub(not_after.as_secs());
                Self::Expired(match seconds / 3_600 {
                    0 => " less than an hour ago".to_owned(),
                    hours @ 1..48 => format!(" {hours} hours ago"),
                    hours => format!(" {} days ago", hours / 24),
                })
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            CertificateError::NotValidForName => Self::WrongName("others".to_owned()),
            CertificateError::NotValidForNameContext { presented, .. } => Self::WrongName(names(presented)),
            // Another CA of the same name.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownIssuer,
            error if format!("{error:?}").contains("CaUsedAsEndEntity") => Self::CertificateOfCa,
            error => Self::InvalidCertificate(error.to_string()),
        }
    }

    fn of_alert(alert: AlertDescription) -> Self {
        match alert {
            AlertDescription::CertificateRequired => Self::CertificateRequired,
            AlertDescription::UnknownCA => Self::CertificateRefused("its CA is not trusted there"),
            AlertDescription::CertificateExpired => Self::CertificateRefused("it has expired or is not valid yet"),
            AlertDescription::CertificateRevoked => Self::CertificateRefused("it is revoked"),
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError => Self::CertificateRefused("it cannot be verified there"),
            AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure => Self::NoCommonVersion,
            alert => Self::Other(format!("it sent the alert {alert:?}")),
        }
    }
}

/// The names of a certificate, as rustls lists them: `DnsName("a")`, `IpAddress(10.0.0.1)`.
fn names(presented: &[String]) -> String {
    const SHOWN: usize = 5;
    let name = |text: &String| {
        let inner = text.split_once('(').map_or(text.as_str(), |(_, inner)| inner.trim_end_matches(')'));
        inner.trim_matches('"').to_owned()
    };
    let mut shown: Vec<String> = presented.iter().take(SHOWN).map(name).collect();
    if presented.len() > SHOWN {
        shown.push(format!("{} more", presented.len() - SHOWN));
    }
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    fn shown(error: rustls::Error) -> String {
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
        TlsFailure::of(&wrapped).unwrap().to_string()
    }

    #[test]
    fn causes_have_their_remedy() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let expired = |hours: u64| CertificateError::ExpiredContext { time: at(hours * 3_600 + 99), not_after: at(9) };
        let check = |error: rustls::Error, want: &str| {
            let text = shown(error);
            assert!(text.contains(want) && !text.contains('\n'), "{text}");
        };
        check(expired(0).into(), "expired less than an hour ago");
        check(expired(30).into(), "expired 30 hours ago");
        check(expired(72).into(), "expired 3 days ago");
        for error in [CertificateError::UnknownIssuer, CertificateError::BadSignature] {
            check(error.into(), "name the file of its CA with --ca");
        }
        let expected = ServerName::try_from("other").unwrap();
        let presented = vec!["DnsName(\"a.example\")".to_owned(), "IpAddress(10.0.0.1)".to_owned()];
        check(CertificateError::NotValidForNameContext { expected, presented }.into(), "for a.example, 10.0.0.1: ");
        check(rustls::Error::AlertReceived(AlertDescription::CertificateRequired), "requires a client certificate");
        check(rustls::Error::AlertReceived(AlertDescription::UnknownCA), "its CA is not trusted there");
        check(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType), "does not speak TLS");
    }

    #[test]
    fn other_errors_are_not_those_of_tls() {
        assert_eq!(TlsFailure::of(&io::Error::other("x")), None);
        assert_eq!(TlsFailure::of(&io::Error::from(io::ErrorKind::ConnectionReset)), None);
        let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(TlsFailure::of_handshake(&closed), TlsFailure::Closed);
    }
}
