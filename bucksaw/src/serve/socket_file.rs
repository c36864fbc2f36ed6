//! The file of a Unix datagram socket.

use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tokio::net::UnixDatagram;
use tracing::warn;

/// Every user of the machine may write, as to every syslog socket.
const MODE: u32 = 0o666;

/// A socket's file, removed when this is dropped.
pub(super) struct SocketFile(pub(super) PathBuf);

impl SocketFile {
    /// Binds a socket. A file that is left of a process that has ended is replaced.
    pub(super) fn bind(path: &Path) -> anyhow::Result<(Self, UnixDatagram)> {
        let shown = path.display();
        match std::fs::symlink_metadata(path) {
            Ok(file) if !file.file_type().is_socket() => {
                bail!("{shown} exists and is no socket: choose another path with --listen-syslog-socket");
            }
            Ok(_) if has_listener(path) => {
                bail!(
                    "another process listens on {shown}: stop it, or choose another path with --listen-syslog-socket"
                );
            }
            Ok(_) => std::fs::remove_file(path).with_context(|| format!("cannot replace {shown}"))?,
            Err(_) => {}
        }
        let socket = UnixDatagram::bind(path);
        let socket = socket
            .with_context(|| format!("cannot listen on {shown}: choose another path with --listen-syslog-socket"))?;
        let file = Self(path.to_owned());
        std::fs::set_permissions(path, Permissions::from_mode(MODE))
            .with_context(|| format!("cannot set the permissions of {shown}"))?;
        Ok((file, socket))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != ErrorKind::NotFound
        {
            warn!(path = %self.0.display(), %error, "cannot remove the socket");
        }
    }
}

fn has_listener(path: &Path) -> bool {
    std::os::unix::net::UnixDatagram::unbound().is_ok_and(|socket| socket.connect(path).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_is_in_use_or_no_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let refused = |words: &str| {
            let refused = SocketFile::bind(&path).err().unwrap().to_string();
            assert!(refused.contains(words) && refused.contains("--listen-syslog-socket"), "{refused}");
        };
        std::fs::write(&path, "text").unwrap();
        refused("is no socket");
        std::fs::remove_file(&path).unwrap();

        let (file, socket) = SocketFile::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        refused("another process listens");
        // As after a kill.
        drop(socket);
        let (again, _socket) = SocketFile::bind(&path).unwrap();
        std::mem::forget(file);
        drop(again);
        assert!(!path.exists());
    }
}
