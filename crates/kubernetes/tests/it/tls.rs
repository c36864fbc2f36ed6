//! TLS with a certificate authority of its own.

use std::fs;
use std::sync::Arc;

use bucksaw_fixtures::{KubernetesStub, wait_until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::watched::{Watched, put};

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server with a certificate for a name or an address.
fn server(authority: &CertifiedIssuer<'static, KeyPair>, name: &str) -> KubernetesStub {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let config = Arc::new(config);
    KubernetesStub::start_with(move |stream| {
        Box::new(StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream))
    })
    .unwrap()
}

#[tokio::test]
async fn only_the_certificates_of_the_cluster_are_trusted() {
    let dir = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "real files")]
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    let own = authority();
    let stub = server(&own, "127.0.0.1");
    put(&stub, "first", "one");
    stub.require_token("secret");
    write("token", "secret");
    let watched = Watched::start(&format!("https://127.0.0.1:{}", stub.port()), dir.path());
    let error = || watched.status().error.unwrap_or_default();
    wait_until("the missing file is reported", || error().contains("ca.crt: is missing")).await;
    write("ca.crt", &authority().pem());
    wait_until("the other authority is refused", || error().contains("invalid peer certificate")).await;
    assert_eq!(stub.requests(), [""; 0]);
    // Read again, with others in the same file.
    write("ca.crt", &format!("{}{}", authority().pem(), own.pem()));
    watched.wait_app("first", "one").await;
    watched.wait_synced().await;
}

#[tokio::test]
async fn a_certificate_of_another_server_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let own = authority();
    let stub = server(&own, "10.0.0.1");
    #[expect(clippy::disallowed_methods, reason = "real files")]
    fs::write(dir.path().join("ca.crt"), own.pem()).unwrap();
    let watched = Watched::start(&format!("https://127.0.0.1:{}", stub.port()), dir.path());
    let error = || watched.status().error.unwrap_or_default();
    wait_until("it is refused", || error().starts_with("TLS: ")).await;
    assert!(error().contains("not valid for name"), "{}", error());
    assert_eq!(stub.requests(), [""; 0]);
}
