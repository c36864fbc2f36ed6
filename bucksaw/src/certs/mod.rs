//! `bucksaw certs`: a small private CA, for those who have none.
//!
//! Files are created, never replaced. [`authority`] makes the certificates.

mod authority;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bucksaw_env::{Env, Fs};
use clap::{Args, ValueEnum};

use crate::exit::Exit;
use crate::failure::UsageError;
use crate::print::Out;
use authority::{CertificatePurpose, IssuedCertificate};

/// The files of the CA in its directory.
const CA_CERTIFICATE: &str = "ca.pem";
const CA_KEY: &str = "ca.key";

/// How long certificates are valid, in days: that of a CA must be given to every client again.
const CA_DAYS: u32 = 3_650;
const CERTIFICATE_DAYS: u32 = 365;

/// The longest validity, in days: a hundred years.
const DAYS_MAX: u32 = 36_500;

/// Make a small private CA, and certificates of nodes and clients
///
/// `certs ca` makes a CA in the directory; then `certs node NAME...` makes a certificate of a node with all names and addresses by
/// which clients connect to it, and `certs client NAME` one of a client. Existing files are never replaced. Private keys have
/// mode 0600; that of the CA stays here. See docs/tls.md.
#[derive(Clone, Debug, Args)]
pub(crate) struct CertsArgs {
    /// What to make: ca, node or client
    #[arg(value_name = "KIND", value_enum, hide_possible_values = true)]
    kind: CertificateKind,

    /// Names: of a node all host names and addresses, of a client or a CA one name
    ///
    /// The first is the subject (CN) and the name of the files.
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Directory of the CA and its certificates; created if missing
    #[arg(long, value_name = "DIR", default_value = "./bucksaw-certs")]
    dir: PathBuf,

    /// Days until the certificate expires; defaults to 365, for a CA to 3650
    #[arg(long, value_name = "N", value_parser = days)]
    days: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CertificateKind {
    Ca,
    Node,
    Client,
}

fn days(text: &str) -> Result<u32, String> {
    let days = text.parse().ok().filter(|days| (1..=DAYS_MAX).contains(days));
    days.ok_or_else(|| format!("expected a number of days from 1 to {DAYS_MAX}"))
}

pub(crate) fn run(args: &CertsArgs) -> anyhow::Result<Exit> {
    let (env, dir) = (Env::real(), &args.dir);
    let now = env.clock.unix_ms() / 1_000;
    let days = args.days.unwrap_or(if args.kind == CertificateKind::Ca { CA_DAYS } else { CERTIFICATE_DAYS });
    let (stem, issued) = match (args.kind, &args.names[..]) {
        (CertificateKind::Ca, []) => ("ca".to_owned(), authority::make_ca("Bucksaw CA", days, now)?),
        (CertificateKind::Ca, [name]) => ("ca".to_owned(), authority::make_ca(name, days, now)?),
        (CertificateKind::Ca, _) => return Err(UsageError("certs ca has one name at most".to_owned()).into()),
        (_, []) => {
            let problem = "certs needs a NAME: the host names and addresses of the node, or the name of the client";
            return Err(UsageError(problem.to_owned()).into());
        }
        (CertificateKind::Client, [_, _, ..]) => {
            return Err(UsageError("a client has one name: make a certificate for each client".to_owned()).into());
        }
        (kind, names) => {
            let stem = file_stem(names.first().map_or("", String::as_str))?;
            let purpose = match kind {
                CertificateKind::Client => CertificatePurpose::Client,
                _ => CertificatePurpose::Node,
            };
            let ca = IssuedCertificate { certificate: read(dir, CA_CERTIFICATE)?, key: read(dir, CA_KEY)? };
            (stem, authority::issue(&ca, purpose, names, days, now)?)
        }
    };
    create_dir(&*env.fs, dir)?;
    let files = [(dir.join(format!("{stem}.key")), issued.key), (dir.join(format!("{stem}.pem")), issued.certificate)];
    for (path, _) in &files {
        if env.fs.stat(path).is_ok() {
            bail!("{} exists: choose another --dir or remove the file; certs replaces nothing", path.display());
        }
    }
    let mut shown = String::new();
    for (path, text) in files.iter().rev() {
        let created = env.fs.create(path).and_then(|file| {
            file.append(&[text.as_bytes()])?;
            file.sync()
        });
        created.with_context(|| format!("cannot write {}", path.display()))?;
        shown.push_str(&format!("{}\n", path.display()));
    }
    env.fs.sync_dir(dir).with_context(|| format!("cannot write to {}", dir.display()))?;
    Out::print(shown.as_bytes())
}

fn create_dir(files: &dyn Fs, dir: &Path) -> anyhow::Result<()> {
    files.create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))
}

fn read(dir: &Path, name: &str) -> anyhow::Result<String> {
    let path = dir.join(name);
    let shown = path.display();
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{shown} does not exist: make a CA with 'bucksaw certs ca', or name its directory with --dir")
        }
        text => text.with_context(|| format!("cannot read {shown}")),
    }
}

/// The name of files for a certificate: letters, digits and a few signs, of which none leads to another directory.
fn file_stem(name: &str) -> Result<String, UsageError> {
    let stem: String = name
        .chars()
        .map(|char| if char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_') { char } else { '_' })
        .collect();
    if stem.is_empty() || stem.starts_with('.') || stem == "ca" {
        return Err(UsageError(format!("`{name}` cannot be the name of a file: choose another first NAME")));
    }
    Ok(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_files_of_the_directory() {
        let check = |name: &str, want: Option<&str>| assert_eq!(file_stem(name).ok().as_deref(), want, "{name}");
        check("logs.example.com", Some("logs.example.com"));
        check("::1", Some("__1"));
        check("*.example.com", Some("_.example.com"));
        check("a/../b", Some("a_.._b"));
        for name in ["", ".", "../x", "ca"] {
            check(name, None);
        }
    }
}
