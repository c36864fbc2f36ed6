//! What a provider publishes about itself.

use serde::Deserialize;

/// The document at `/.well-known/openid-configuration`, as far as it is needed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ProviderMetadata {
    issuer: String,
    pub(crate) authorization_endpoint: String,
    pub(crate) token_endpoint: String,
    pub(crate) jwks_uri: String,
}

/// Why a document is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetadataFault {
    #[error("it is no document of OpenID Connect: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("it names the issuer {0}, which must be equal to that of the auth file")]
    Issuer(String),
    #[error("it names the address {0}, which is not encrypted")]
    Unencrypted(String),
}

impl ProviderMetadata {
    /// Reads a document, which must be that of this issuer.
    pub(crate) fn parse(document: &[u8], issuer: &str) -> Result<Self, MetadataFault> {
        let metadata: Self = serde_json::from_slice(document)?;
        if metadata.issuer != issuer {
            return Err(MetadataFault::Issuer(metadata.issuer));
        }
        // Over loopback the issuer itself may be unencrypted.
        if issuer.starts_with("https://") {
            let urls = [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri];
            if let Some(url) = urls.into_iter().find(|url| !url.starts_with("https://")) {
                return Err(MetadataFault::Unencrypted(url.clone()));
            }
        }
        Ok(metadata)
    }

    /// Where the document of an issuer is.
    pub(crate) fn url(issuer: &str) -> String {
        format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(issuer: &str, keys: &str) -> Vec<u8> {
        format!(
            r#"{{"issuer":"{issuer}","authorization_endpoint":"https://id.example/a","token_endpoint":"https://id.example/t",
                "jwks_uri":"{keys}","other":[1]}}"#
        )
        .into_bytes()
    }

    #[test]
    fn a_document_must_be_that_of_the_issuer_and_encrypted() {
        let parse = |document: &[u8]| {
            ProviderMetadata::parse(document, "https://id.example").map_err(|error| error.to_string())
        };
        assert_eq!(
            parse(&document("https://id.example", "https://id.example/k")).unwrap().jwks_uri,
            "https://id.example/k"
        );
        let other = parse(&document("https://evil.example", "https://id.example/k")).unwrap_err();
        assert!(other.starts_with("it names the issuer https://evil.example"), "{other}");
        let plain = parse(&document("https://id.example", "http://id.example/k")).unwrap_err();
        assert!(plain.ends_with("which is not encrypted"), "{plain}");
        assert!(parse(b"{}").is_err() && parse(b"\xff").is_err());
        assert_eq!(
            ProviderMetadata::url("https://id.example/realms/x/"),
            "https://id.example/realms/x/.well-known/openid-configuration"
        );
    }
}
