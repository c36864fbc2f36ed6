//! A node with an auth file.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::node::{TestServer, bucksaw};
use crate::wait::{WAIT_MAX, wait_until};

/// A node, and the file with its tokens.
pub(super) struct AuthNode {
    pub(super) server: TestServer,
    home: TempDir,
    callers: AtomicU32,
}

impl AuthNode {
    /// A node with further arguments, and these tokens: name, and flags of `bucksaw token add`.
    pub(super) fn start(arguments: &[&str], tokens: &[(&str, &[&str])]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("auth.toml");
        for (name, flags) in tokens {
            add_token(&home, name, flags);
        }
        let arguments = [&["--auth-file", file.to_str().unwrap()], arguments].concat();
        Self { server: TestServer::start(&arguments), home, callers: AtomicU32::new(0) }
    }

    /// The token of this name.
    pub(super) fn token(&self, name: &str) -> String {
        fs::read_to_string(self.token_file(name)).unwrap().trim().to_owned()
    }

    /// The file with a token.
    pub(super) fn token_file(&self, name: &str) -> PathBuf {
        self.home.path().join(format!("{name}.token"))
    }

    pub(super) fn auth_file(&self) -> PathBuf {
        self.home.path().join("auth.toml")
    }

    /// Removes a token, and waits until the node refuses it.
    pub(super) fn revoke(&self, name: &str) {
        let token = self.token(name);
        let run = bucksaw(["token", "revoke", name, "--auth-file"]).arg(self.auth_file()).output().unwrap();
        assert!(run.status.success(), "{run:?}");
        wait_until("the token is refused", || self.status_of("GET", "/api/v1/session", Some(&token), &[]) == 401);
    }

    /// The status of a call with a token. Each call comes from another address, so that none is slowed.
    pub(super) fn status_of(&self, method: &str, path: &str, token: Option<&str>, headers: &[&str]) -> u16 {
        let (status, _) = self.call("http", method, path, token, headers, "");
        status
    }

    /// The status and the text of an answer.
    pub(super) fn call(
        &self,
        listener: &str,
        method: &str,
        path: &str,
        token: Option<&str>,
        headers: &[&str],
        body: &str,
    ) -> (u16, String) {
        let mut stream = self.connect(listener);
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n");
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        for header in headers
            .iter()
            .map(|header| (*header).to_owned())
            .chain(token.map(|token| format!("Authorization: Bearer {token}")))
        {
            head.push_str(&format!("{header}\r\n"));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("{method} {path}: {answer}")), answer)
    }

    /// A connection from an address of its own.
    pub(super) fn connect(&self, listener: &str) -> std::net::TcpStream {
        let number = self.callers.fetch_add(1, Ordering::Relaxed);
        let from = [127, 1, (number / 250) as u8, (number % 250 + 1) as u8];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind((from, 0).into()).unwrap();
            socket.connect(self.server.address(listener).parse().unwrap()).await.unwrap().into_std().unwrap()
        });
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        stream
    }

    /// The number of records that a token finds.
    pub(super) fn count(&self, token: &str, headers: &[&str]) -> u64 {
        let (status, answer) = self.call("http", "GET", "/api/v1/count?from=30d", Some(token), headers, "");
        assert_eq!(status, 200, "{answer}");
        let (_, body) = answer.split_once("\"count\":").unwrap();
        body.split(',').next().unwrap().parse().unwrap()
    }
}

fn add_token(home: &TempDir, name: &str, flags: &[&str]) {
    let file = home.path().join("auth.toml");
    let run = bucksaw(["token", "add", name, "--auth-file"]).arg(file).args(flags).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    let token = String::from_utf8(run.stdout).unwrap();
    assert!(
        token.starts_with("bks_") && token.len() == 48 && token.ends_with('\n'),
        "nothing but the token is printed"
    );
    fs::write(home.path().join(format!("{name}.token")), token).unwrap();
}
