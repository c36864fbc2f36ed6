//! The token that a command presents to nodes.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bucksaw_auth::SecretText;
use clap::Args;

/// The variable with the token itself, for those who give no file.
const TOKEN_VARIABLE: &str = "BUCKSAW_TOKEN";

/// Longest file in bytes.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// The token for nodes that authenticate.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PresentedTokenArgs {
    /// File with the token for nodes that authenticate
    ///
    /// Without it the token is that in the variable BUCKSAW_TOKEN, if set. 'bucksaw token add' makes tokens.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

impl PresentedTokenArgs {
    /// The token, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or holds none.
    pub(crate) fn token(&self) -> anyhow::Result<Option<SecretText>> {
        let text = match &self.token_file {
            Some(path) => read(path).with_context(|| format!("--token-file: cannot read {}", path.display()))?,
            None => match std::env::var(TOKEN_VARIABLE) {
                Ok(text) if text.trim().is_empty() => return Ok(None),
                Ok(text) => text,
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(_) => bail!("{TOKEN_VARIABLE} is no text"),
            },
        };
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let source = self.token_file.as_ref().map_or(TOKEN_VARIABLE.to_owned(), |path| path.display().to_string());
            bail!("{source} holds no token: it is one word, as 'bucksaw token add' prints it");
        }
        Ok(Some(SecretText::new(token)))
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_of_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let check = |text: &[u8], want: Option<&str>| {
            std::fs::write(file.path(), text).unwrap();
            let token = PresentedTokenArgs { token_file: Some(file.path().to_owned()) }.token();
            let error = token.as_ref().err().map(ToString::to_string).unwrap_or_default();
            let got = token.ok().flatten();
            assert_eq!(got.as_ref().map(SecretText::expose), want, "{error}");
            assert!(!error.contains("secret"), "{error}");
        };
        check(b"bks_x\n", Some("bks_x"));
        check(b" bks_x", Some("bks_x"));
        for bad in [&b""[..], b"\n", b"bks_x secret", b"secret\nbks_x", b"\xff"] {
            check(bad, None);
        }
        let missing = PresentedTokenArgs { token_file: Some("/nonexistent".into()) }.token().unwrap_err();
        assert!(
            format!("{missing:#}").starts_with("--token-file: cannot read /nonexistent: No such file"),
            "{missing:#}"
        );
    }
}
