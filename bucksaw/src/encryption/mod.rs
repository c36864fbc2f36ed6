//! Encryption at rest: where the keys come from, and when they are read again. `docs/encryption.md`.

mod key_command;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bucksaw_crypt::{EncryptedFs, KEY_TEXT_BYTES_MAX, KeyList, KeyRing};
use bucksaw_env::{Env, FileKeys as _, Fs, KeyId, Reload, Reloads, read_file};
use clap::Args;
use tracing::{error, info, warn};

use crate::failure::UsageError;
use crate::small_files;

/// How often the key file is checked for changes.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How often the key command runs.
const COMMAND_INTERVAL: Duration = Duration::from_secs(60);

/// The keys with which files in the data directory are encrypted.
#[derive(Clone, Debug, Args)]
pub(crate) struct EncryptionArgs {
    /// File with the keys that encrypt the records on disk; off by default
    ///
    /// One key on each line: 32 bytes in base64 or hexadecimal, such as from 'openssl rand -base64 32'. The first encrypts, all
    /// decrypt. All nodes of a cluster need the same keys. The file is read again when it changes. See docs/encryption.md.
    #[arg(long, value_name = "FILE")]
    pub(crate) encryption_key_file: Option<PathBuf>,

    /// Shell command that prints the keys of --encryption-key-file, for a key management service; off by default
    ///
    /// It has ten seconds, and runs again every minute. If it fails then, the keys stay as they are.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) encryption_key_command: Option<String>,
}

/// Where keys come from.
#[derive(Clone, Debug)]
enum KeySource {
    File(PathBuf),
    Command(String),
}

/// The keys of a process.
#[derive(Debug)]
pub(crate) struct Encryption {
    source: KeySource,
    ring: Arc<KeyRing>,
    named: Vec<KeyId>,
    fs: Arc<dyn Fs>,
}

impl EncryptionArgs {
    /// Reads the keys, and gives them to the files of the environment. `None` without keys.
    ///
    /// # Errors
    /// Both flags are given, or there is no usable key.
    pub(crate) fn load(&self, env: &mut Env) -> anyhow::Result<Option<Encryption>> {
        let source = match (&self.encryption_key_file, &self.encryption_key_command) {
            (None, None) => return Ok(None),
            (Some(path), None) => KeySource::File(path.clone()),
            (None, Some(command)) => KeySource::Command(command.clone()),
            (Some(_), Some(_)) => {
                let problem = "--encryption-key-file and --encryption-key-command exclude each other";
                return Err(UsageError(problem.to_owned()).into());
            }
        };
        let fs = Arc::clone(&env.fs);
        let keys = source.read(&*fs)?;
        let named = keys.ids();
        let ring = Arc::new(KeyRing::new(keys, Arc::clone(&env.entropy)));
        env.fs = Arc::new(EncryptedFs::new(Arc::clone(&fs), Arc::clone(&ring) as _));
        Ok(Some(Encryption { source, ring, named, fs }))
    }
}

impl KeySource {
    fn report(&self, reloads: &Reloads, failure: Option<&str>) {
        let path = match self {
            Self::File(path) => path,
            Self::Command(_) => Path::new("--encryption-key-command"),
        };
        reloads.report(&Reload { name: "encryption keys", path, failure });
    }

    fn read(&self, fs: &dyn Fs) -> anyhow::Result<KeyList> {
        match self {
            Self::File(path) => {
                const FLAG: &str = "--encryption-key-file";
                let shown = path.display();
                small_files::check_private(fs, path, FLAG)?;
                let text = read_file(fs, path, KEY_TEXT_BYTES_MAX as u64 + 1);
                let text = text.with_context(|| format!("{FLAG}: cannot read {shown}"))?;
                let Some(text) = text else { bail!("{FLAG}: {shown} does not exist") };
                KeyList::parse(&text).with_context(|| format!("{FLAG} {shown}"))
            }
            Self::Command(command) => {
                const FLAG: &str = "--encryption-key-command";
                let text = key_command::run(command).with_context(|| FLAG.to_owned())?;
                KeyList::parse(&text).with_context(|| format!("{FLAG}: its output is unusable"))
            }
        }
    }
}

impl Encryption {
    /// Logs the keys in use, by their ids.
    pub(crate) fn log(&self) {
        let key = self.named.first().map(ToString::to_string).unwrap_or_default();
        info!(key, keys = self.named.len(), "records on disk are encrypted");
    }

    /// Reads the keys again when they change, until it is dropped. Keys that cannot be used change nothing.
    #[expect(clippy::disallowed_methods, reason = "the binary waits in real time")]
    pub(crate) async fn watch(mut self, reloads: Reloads) {
        let (mut known, mut has_failed) = (self.stamp(), false);
        loop {
            match self.source {
                KeySource::File(_) => tokio::time::sleep(FILE_CHECK_INTERVAL).await,
                KeySource::Command(_) => tokio::time::sleep(COMMAND_INTERVAL).await,
            }
            // A stat of a local file.
            let found = self.stamp();
            if found.is_some() && found == known {
                continue;
            }
            known = found;
            let (source, fs) = (self.source.clone(), Arc::clone(&self.fs));
            match tokio::task::spawn_blocking(move || source.read(&*fs)).await {
                Ok(Ok(keys)) => {
                    if self.replace(keys) || has_failed {
                        self.source.report(&reloads, None);
                    }
                    has_failed = false;
                }
                Ok(Err(error)) => {
                    let error = format!("{error:#}");
                    error!(error, "the encryption keys cannot be read again: those in use stay");
                    self.source.report(&reloads, Some(&error));
                    has_failed = true;
                }
                Err(_) => error!("reading the encryption keys panicked: those in use stay"),
            }
        }
    }

    /// Identifies the content of the key file; `None` for a command, or without a file.
    fn stamp(&self) -> Option<impl PartialEq + use<>> {
        let KeySource::File(path) = &self.source else { return None };
        self.fs.stat(path).ok().map(|stat| (stat.identity, stat.size, stat.modified_ms))
    }

    /// Returns whether these are other keys than those in use.
    fn replace(&mut self, keys: KeyList) -> bool {
        let named = keys.ids();
        if named == self.named {
            return false;
        }
        self.named = named;
        for key in self.ring.replace(keys) {
            warn!(%key, "an encryption key is no longer named: files under it can be read until this node stops");
        }
        let key = self.ring.writing_key().map(|key| key.to_string()).unwrap_or_default();
        info!(key, keys = self.named.len(), "changed encryption keys are in use");
        true
    }
}
