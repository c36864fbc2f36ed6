//! The credentials of a service account, as Kubernetes mounts them into a pod.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::{Fs, read_file};
use bucksaw_tls::{client_config, root_certificates};
use hyper::header::HeaderValue;
use rustls::ClientConfig;

use crate::server_error::ApiServerError;

/// The longest token, in bytes.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// The longest file of certificates, in bytes.
const CERTIFICATE_BYTES_MAX: u64 = 1 << 20;

/// Reads the files anew at each call: the kubelet replaces the token every hour, and the certificates when they change.
pub(crate) struct Credentials {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
}

impl Credentials {
    pub(crate) fn new(fs: Arc<dyn Fs>, dir: PathBuf) -> Self {
        Self { fs, dir }
    }

    /// The header `Authorization`; `None` if there is no token, as with `kubectl proxy`.
    pub(crate) fn authorization(&self) -> Result<Option<HeaderValue>, ApiServerError> {
        let path = self.dir.join("token");
        let token = read_file(&*self.fs, &path, TOKEN_BYTES_MAX).map_err(|error| unreadable(&path, &error))?;
        let Some(token) = token else { return Ok(None) };
        let header = HeaderValue::from_bytes(&[b"Bearer ", token.trim_ascii()].concat());
        let mut header = header.map_err(|_| invalid(&path, "is no token"))?;
        header.set_sensitive(true);
        Ok(Some(header))
    }

    /// The settings of TLS: only certificates of `ca.crt` are trusted.
    pub(crate) fn tls(&self) -> Result<Arc<ClientConfig>, ApiServerError> {
        let path = self.dir.join("ca.crt");
        let pem = read_file(&*self.fs, &path, CERTIFICATE_BYTES_MAX).map_err(|error| unreadable(&path, &error))?;
        let pem = pem.ok_or_else(|| invalid(&path, "is missing, and without it no server can be trusted"))?;
        let roots = root_certificates(&pem).ok_or_else(|| invalid(&path, "has no certificate"))?;
        let config = client_config(roots, &[b"http/1.1"]);
        config.map(Arc::new).map_err(|error| ApiServerError::Tls(error.to_string()))
    }
}

fn unreadable(path: &Path, error: &io::Error) -> ApiServerError {
    ApiServerError::Credentials { path: path.to_owned(), reason: error.to_string() }
}

fn invalid(path: &Path, reason: &str) -> ApiServerError {
    ApiServerError::Credentials { path: path.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use bucksaw_env::sim;

    use super::*;

    #[test]
    fn a_token_is_read_each_time() {
        let fs = sim::Fs::new();
        fs.create_dir_all(Path::new("/c")).unwrap();
        let credentials = Credentials::new(Arc::new(fs.clone()), "/c".into());
        let shown =
            || credentials.authorization().map(|header| header.map(|header| header.to_str().unwrap().to_owned()));
        assert_eq!(shown().unwrap(), None);
        for token in ["one", "two"] {
            let _ = fs.remove(Path::new("/c/token"));
            fs.create(Path::new("/c/token")).unwrap().append(&[token.as_bytes(), b"\n"]).unwrap();
            assert_eq!(shown().unwrap(), Some(format!("Bearer {token}")));
        }
        fs.remove(Path::new("/c/token")).unwrap();
        fs.create(Path::new("/c/token")).unwrap().append(&[b"a\nb"]).unwrap();
        assert_eq!(shown().unwrap_err().to_string(), "/c/token: is no token");
    }

    #[test]
    fn certificates_are_needed() {
        let fs = sim::Fs::new();
        fs.create_dir_all(Path::new("/c")).unwrap();
        let credentials = Credentials::new(Arc::new(fs.clone()), "/c".into());
        let error = || credentials.tls().unwrap_err().to_string();
        assert!(error().starts_with("/c/ca.crt: is missing"));
        fs.create(Path::new("/c/ca.crt")).unwrap().append(&[b"-----BEGIN CERTIFICATE-----\nAA\n"]).unwrap();
        assert_eq!(error(), "/c/ca.crt: has no certificate");
    }
}
