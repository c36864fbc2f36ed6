//! TLS of a command that connects to nodes.

use std::path::PathBuf;

use bucksaw_env::Env;
use bucksaw_tls::{ClientFiles, ClientTls};
use clap::Args;

use crate::failure::UsageError;

/// The certificates of a client. Naming one of them implies TLS.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ClientTlsArgs {
    /// File with the CA that signed the certificates of the nodes; defaults to the CAs that this system trusts
    ///
    /// For https:// and --tls, which it implies. See docs/tls.md.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// Certificate of this client, for nodes that require one
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,

    /// Private key of --cert
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

impl ClientTlsArgs {
    /// Whether a file is named, so that a connection in plain cannot be meant.
    pub(crate) fn is_any(&self) -> bool {
        self.files().is_any()
    }

    /// Reads the files. `protocols` are the names of what is spoken over TLS.
    pub(crate) fn load(&self, protocols: &[&[u8]]) -> anyhow::Result<ClientTls> {
        match (&self.cert, &self.key) {
            (Some(_), None) => Err(UsageError("--cert needs --key, the file with its private key".to_owned()).into()),
            (None, Some(_)) => Err(UsageError("--key needs --cert, the file with its certificate".to_owned()).into()),
            _ => Ok(ClientTls::load(Env::real().fs, self.files(), protocols)?),
        }
    }

    fn files(&self) -> ClientFiles {
        ClientFiles { ca: self.ca.clone(), certificate: self.cert.clone(), key: self.key.clone() }
    }
}
