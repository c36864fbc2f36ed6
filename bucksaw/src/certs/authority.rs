//! Makes certificates: ECDSA with P-256, which every client of TLS supports.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};

use crate::failure::UsageError;

/// How long before its creation a certificate is valid: clocks of other machines may be late.
const CLOCK_TOLERANCE_SECONDS: u64 = 3_600;

const DAY_SECONDS: u64 = 24 * 3_600;

/// A certificate and its private key, in PEM format.
pub(super) struct IssuedCertificate {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Whose certificate it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CertificatePurpose {
    Node,
    Client,
}

/// Makes a CA that signs certificates of nodes and clients, and no further CAs. `now` is in seconds since 1970.
pub(super) fn make_ca(name: &str, days: u32, now: u64) -> anyhow::Result<IssuedCertificate> {
    let mut params = params(name, days, now);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().context("cannot make a private key")?;
    let certificate = params.self_signed(&key).context("cannot sign the certificate")?;
    Ok(IssuedCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Makes a certificate that the CA signs.
pub(super) fn issue(
    ca: &IssuedCertificate,
    purpose: CertificatePurpose,
    names: &[String],
    days: u32,
    now: u64,
) -> anyhow::Result<IssuedCertificate> {
    let ca_key = KeyPair::from_pem(&ca.key).map_err(|error| anyhow!("the key of the CA cannot be read: {error}"))?;
    let issuer = Issuer::from_ca_cert_pem(&ca.certificate, ca_key)
        .map_err(|error| anyhow!("the certificate of the CA cannot be read: {error}"))?;
    let mut params = params(names.first().map_or("", String::as_str), days, now);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    match purpose {
        CertificatePurpose::Node => {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.subject_alt_names = names.iter().map(|name| host(name)).collect::<Result<_, _>>()?;
        }
        CertificatePurpose::Client => {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            // A name that is no host is the subject only.
            params.subject_alt_names = names.iter().filter_map(|name| host(name).ok()).collect();
        }
    }
    let key = KeyPair::generate().context("cannot make a private key")?;
    let certificate = params.signed_by(&key, &issuer).context("cannot sign the certificate")?;
    Ok(IssuedCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn params(name: &str, days: u32, now: u64) -> CertificateParams {
    let at = |seconds: u64| date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = at(now.saturating_sub(CLOCK_TOLERANCE_SECONDS));
    params.not_after = at(now + u64::from(days) * DAY_SECONDS);
    params
}

/// A host as an alternative name: an address, or a DNS name whose first label may be `*`.
fn host(name: &str) -> Result<SanType, UsageError> {
    if let Ok(address) = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let is_label = |label: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_letter)
    };
    let labels = name.strip_prefix("*.").unwrap_or(name);
    let is_host = labels.len() <= 253 && labels.split('.').all(is_label);
    let dns = if is_host { name.to_owned().try_into().ok() } else { None };
    let problem = || format!("`{name}` is no host name or address: give names without a scheme and a port");
    dns.map(SanType::DnsName).ok_or_else(|| UsageError(problem()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bucksaw_env::{Fs as _, sim};
    use bucksaw_tls::{ClientCertificates, PeerIdentity, ServerFiles, TlsVersion, root_certificates};

    use super::*;

    const NOW: u64 = 1_795_000_000;

    #[test]
    fn issued_certificates_can_be_used_by_a_listener() {
        let ca = make_ca("Test CA", 10, NOW).unwrap();
        let names = ["logs.example.com", "10.0.0.1", "::1", "*.example.com"].map(str::to_owned);
        let node = issue(&ca, CertificatePurpose::Node, &names, 5, NOW).unwrap();
        let client = issue(&ca, CertificatePurpose::Client, &["agent 7".to_owned()], 5, NOW).unwrap();
        assert!(root_certificates(ca.certificate.as_bytes()).is_some());
        let fs = sim::Fs::new();
        let files = [("/ca.pem", &ca.certificate), ("/node.pem", &node.certificate), ("/node.key", &node.key)];
        for (path, text) in files {
            fs.create(path.as_ref()).unwrap().append(&[text.as_bytes()]).unwrap();
        }
        let files = ServerFiles {
            certificate: "/node.pem".into(),
            key: "/node.key".into(),
            client_ca: Some("/ca.pem".into()),
            client_certificates: ClientCertificates::Required,
            version_min: TlsVersion::V1_3,
        };
        let env = bucksaw_env::Env { fs: Arc::new(fs), ..bucksaw_env::Env::real() };
        let metrics = bucksaw_tls::Metrics::new(&mut prometheus_client::registry::Registry::default());
        assert!(bucksaw_tls::ServerTls::load(env, files, metrics).is_ok());
        let der = |pem: &str| bucksaw_tls::first_certificate(pem.as_bytes()).unwrap();
        let identity = |pem: &str| PeerIdentity::of_certificate(&der(pem)).unwrap();
        assert_eq!(identity(&client.certificate).subject, "CN=agent 7");
        assert_eq!(identity(&node.certificate).dns_names, ["logs.example.com", "*.example.com"]);
    }

    #[test]
    fn only_hosts_are_names_of_nodes() {
        let ca = make_ca("Test CA", 10, NOW).unwrap();
        for name in ["https://a", "a:7650", "a b", "", "a..b", "*"] {
            let issued = issue(&ca, CertificatePurpose::Node, &[name.to_owned()], 5, NOW);
            assert!(issued.is_err(), "{name}");
        }
        let broken = IssuedCertificate { certificate: ca.key.clone(), key: ca.key };
        let error = issue(&broken, CertificatePurpose::Client, &["a".to_owned()], 5, NOW).err().unwrap().to_string();
        assert!(error.starts_with("the certificate of the CA cannot be read"), "{error}");
    }
}
