//! The cryptography of all connections.

use std::sync::{Arc, LazyLock};

use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, ClientConfig, ConfigBuilder, RootCertStore};

use crate::pem_files::TlsFileError;

/// The cipher that our own clients offer first: AES with 128 bits costs a fifth less than with 256, and is not weaker in practice.
const PREFERRED: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];

/// The cryptography of `ring`. Not the default of the process, so that no other crate can change it.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        let mut provider = rustls::crypto::ring::default_provider();
        // Stable: the rest keeps its order.
        provider.cipher_suites.sort_by_key(|suite| !PREFERRED.contains(&suite.suite()));
        Arc::new(provider)
    });
    Arc::clone(&PROVIDER)
}

/// Settings of a client that trusts these roots and has no certificate.
///
/// # Errors
/// None in practice: the versions of TLS are known to the cryptography.
pub fn client_config(roots: RootCertStore, protocols: &[&[u8]]) -> Result<ClientConfig, TlsFileError> {
    let mut config = client_builder(roots)?.with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

pub(crate) fn client_builder(
    roots: RootCertStore,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TlsFileError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| TlsFileError::Settings(error.to_string()))?;
    Ok(builder.with_root_certificates(roots))
}
