//! Certificates and keys in PEM files.

use std::io;
use std::path::{Path, PathBuf};

use bucksaw_env::{Fs, read_file};
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The longest file, in bytes. A bundle of all public CAs has a quarter of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why files of certificates or keys cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFileError {
    /// A file cannot be read, or does not have the expected content.
    #[error("{}: {reason}", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason for people.
        reason: String,
    },
    /// The system has no usable root certificates.
    #[error("this system has no root certificates that servers could be verified with ({0}): name the file of a CA")]
    NoSystemRoots(String),
    /// The settings contradict each other.
    #[error("{0}")]
    Settings(String),
}

/// The certificates of a file, at least one: that of the server or client itself is the first.
pub(crate) fn read_certificates(fs: &dyn Fs, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    parse_certificates(path, &read(fs, path)?)
}

/// The first private key of a file.
pub(crate) fn read_key(fs: &dyn Fs, path: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    parse_key(path, &read(fs, path)?)
}

/// The certificates of a file as trusted roots.
pub(crate) fn read_roots(fs: &dyn Fs, path: &Path) -> Result<RootCertStore, TlsFileError> {
    root_certificates(&read(fs, path)?).ok_or_else(|| unusable(path, NO_CERTIFICATE))
}

/// The certificates of a PEM file as trusted roots; `None` if there is no usable one.
pub fn root_certificates(pem: &[u8]) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).flatten());
    (usable > 0).then_some(roots)
}

/// The first certificate of a PEM file, in DER.
pub fn first_certificate(pem: &[u8]) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem).ok()
}

pub(crate) fn parse_certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| unusable(path, &format!("is no PEM file: {error}")))?;
    if certificates.is_empty() {
        return Err(unusable(path, NO_CERTIFICATE));
    }
    Ok(certificates)
}

pub(crate) fn parse_key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound if pem.windows(9).any(|part| part == b"ENCRYPTED") => {
            unusable(path, "the private key is encrypted: store it without a passphrase, in a file of mode 0600")
        }
        pem::Error::NoItemsFound => unusable(path, "has no private key in PEM format (BEGIN PRIVATE KEY)"),
        error => unusable(path, &format!("is no PEM file: {error}")),
    })
}

const NO_CERTIFICATE: &str = "has no certificate in PEM format (BEGIN CERTIFICATE)";

fn read(fs: &dyn Fs, path: &Path) -> Result<Vec<u8>, TlsFileError> {
    let bytes = read_file(fs, path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => unusable(path, "this user may not read the file"),
        _ => unusable(path, &format!("cannot be read: {error}")),
    })?;
    bytes.ok_or_else(|| unusable(path, "the file does not exist"))
}

pub(crate) fn unusable(path: &Path, reason: &str) -> TlsFileError {
    TlsFileError::Unusable { path: path.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_what_is_needed_are_named() {
        let path = Path::new("/a.pem");
        let certificates = |pem: &str| parse_certificates(path, pem.as_bytes()).unwrap_err().to_string();
        let key = |pem: &str| parse_key(path, pem.as_bytes()).unwrap_err().to_string();
        assert_eq!(certificates(""), "/a.pem: has no certificate in PEM format (BEGIN CERTIFICATE)");
        assert_eq!(certificates("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), certificates(""));
        assert!(certificates("-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n").contains("is no PEM file"));
        assert_eq!(key("x"), "/a.pem: has no private key in PEM format (BEGIN PRIVATE KEY)");
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        assert!(key(encrypted).contains("is encrypted"));
        assert!(root_certificates(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").is_none());
    }
}
