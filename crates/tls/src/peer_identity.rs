//! Who a client is by its verified certificate.

use std::fmt::Write as _;

use x509_parser::asn1_rs::ToDer as _;
use x509_parser::extensions::GeneralName;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::certificate;

/// The names in a client certificate that a trusted CA has signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerIdentity {
    /// The subject as a string of RFC 4514, the most specific name first: `CN=agent-7,O=Example`.
    pub subject: String,
    /// DNS names of the extension for alternative names.
    pub dns_names: Vec<String>,
    /// URIs of the extension for alternative names.
    pub uris: Vec<String>,
}

/// The short names of RFC 4514 for types of attributes.
const SHORT_NAMES: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.6", "C"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

impl PeerIdentity {
    /// The names in a certificate in DER; `None` if it cannot be read. Does not verify it.
    pub fn of_certificate(der: &[u8]) -> Option<Self> {
        let certificate = certificate::parse(der)?;
        let mut identity = Self { subject: distinguished_name(certificate.subject()), ..Self::default() };
        if let Some(names) = certificate.subject_alternative_name().ok().flatten() {
            for name in &names.value.general_names {
                match name {
                    GeneralName::DNSName(name) => identity.dns_names.push((*name).to_owned()),
                    GeneralName::URI(uri) => identity.uris.push((*uri).to_owned()),
                    _ => {}
                }
            }
        }
        Some(identity)
    }

    /// Whether the certificate has an alternative name, given as `dns:NAME` or `uri:URI`. DNS names have no case.
    pub fn has_alternative_name(&self, name: &str) -> bool {
        match name.split_once(':') {
            Some(("dns", name)) => self.dns_names.iter().any(|own| own.eq_ignore_ascii_case(name)),
            Some(("uri", uri)) => self.uris.iter().any(|own| own == uri),
            _ => false,
        }
    }
}

/// A name as a string of RFC 4514, which reverses the order of its parts.
fn distinguished_name(name: &X509Name<'_>) -> String {
    let parts: Vec<String> =
        name.iter_rdn().map(|part| part.iter().map(attribute).collect::<Vec<_>>().join("+")).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let oid = attribute.attr_type().to_id_string();
    let short = SHORT_NAMES.iter().find(|(known, _)| *known == oid).map(|(_, name)| *name);
    match (short, attribute.as_str()) {
        (Some(name), Ok(value)) => format!("{name}={}", escaped(value)),
        // The value as bytes of its encoding.
        (name, _) => {
            let mut text = format!("{}=#", name.unwrap_or(&oid));
            for byte in attribute.attr_value().to_der_vec().unwrap_or_default() {
                let _ = write!(text, "{byte:02x}");
            }
            text
        }
    }
}

/// A value with the escapes of RFC 4514, section 2.4, so that no value can look like another name.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (at, char) in value.chars().enumerate() {
        match char {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => text.extend(['\\', char]),
            '#' | ' ' if at == 0 => text.extend(['\\', char]),
            ' ' if at == last => text.push_str("\\ "),
            char if char.is_control() => {
                let mut bytes = [0; 4];
                for byte in char.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(text, "\\{byte:02x}");
                }
            }
            char => text.push(char),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    fn identity(names: &[(DnType, &str)], alternative: Vec<SanType>) -> PeerIdentity {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.subject_alt_names = alternative;
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        PeerIdentity::of_certificate(certificate.der()).unwrap()
    }

    #[test]
    fn subjects_are_strings_of_rfc_4514() {
        let check = |names: &[(DnType, &str)], want: &str| assert_eq!(identity(names, Vec::new()).subject, want);
        check(&[(DnType::CommonName, "agent-7")], "CN=agent-7");
        check(
            &[
                (DnType::CountryName, "DE"),
                (DnType::OrganizationName, "Example, Inc."),
                (DnType::CommonName, "agent 7"),
            ],
            "CN=agent 7,O=Example\\, Inc.,C=DE",
        );
        check(&[(DnType::CommonName, "a,O=Admins")], "CN=a\\,O\u{3d}Admins");
        check(&[(DnType::CommonName, " #a\\ ")], "CN=\\ #a\\\\\\ ");
        check(&[(DnType::CommonName, "#a+\"b\"<c>;\n")], "CN=\\#a\\+\\\"b\\\"\\<c\\>\\;\\0a");
        // UTF-8 of tag 12 and length 1.
        check(&[(DnType::CustomDnType(vec![1, 2, 3]), "x")], "1.2.3=#0c0178");
        check(&[], "");
    }

    #[test]
    fn alternative_names_are_found() {
        let names = vec![
            SanType::DnsName("Agent-7.example".try_into().unwrap()),
            SanType::URI("spiffe://example/agent".try_into().unwrap()),
            SanType::IpAddress([10, 0, 0, 1].into()),
        ];
        let identity = identity(&[], names);
        assert_eq!((identity.dns_names.len(), identity.uris.len()), (1, 1));
        for name in ["dns:agent-7.example", "uri:spiffe://example/agent"] {
            assert!(identity.has_alternative_name(name), "{name}");
        }
        for name in ["agent-7.example", "dns:agent-7", "uri:spiffe://example/Agent", "ip:10.0.0.1", "dns:"] {
            assert!(!identity.has_alternative_name(name), "{name}");
        }
    }

    #[test]
    fn other_bytes_are_no_certificate() {
        assert_eq!(PeerIdentity::of_certificate(b""), None);
        assert_eq!(PeerIdentity::of_certificate(b"\x30\x03abc"), None);
    }
}
