//! An auth file that is edited: comments and order are kept.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use bucksaw_auth::{AccessScope, AuthRules, FILE_BYTES_MAX, SecretText, TokenDigest};
use bucksaw_record::{Labels, Millis, time};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};

/// The key of tokens.
const TOKEN: &str = "token";

/// Permissions of a new file: its owner reads and writes it.
const MODE: u32 = 0o600;

/// The text of a file, and where it is.
pub(super) struct AuthFile {
    /// The file itself, not a link to it.
    path: PathBuf,
    text: DocumentMut,
}

/// A token to be added.
pub(super) struct NewToken<'a> {
    pub(super) name: &'a str,
    pub(super) token: &'a SecretText,
    pub(super) scopes: &'a [AccessScope],
    pub(super) labels: Labels,
    pub(super) tenants: &'a [String],
    pub(super) expires: Option<Millis>,
    pub(super) bytes_per_second: Option<u64>,
    pub(super) queries_max: Option<u64>,
    pub(super) fluentd: bool,
}

impl AuthFile {
    /// Reads a valid file.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let real = fs::canonicalize(path).with_context(|| format!("cannot read {shown}"))?;
        let size = fs::metadata(&real).with_context(|| format!("cannot read {shown}"))?.len();
        if size > FILE_BYTES_MAX {
            bail!("{shown} has {size} bytes, {FILE_BYTES_MAX} are allowed: is it the right file?");
        }
        let text = fs::read_to_string(&real).with_context(|| format!("cannot read {shown}"))?;
        AuthRules::parse(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
        Ok(Self { path: real, text: text.parse().with_context(|| format!("{shown} is not TOML"))? })
    }

    /// Reads a valid file, or begins one.
    pub(super) fn open_or_new(path: &Path) -> anyhow::Result<Self> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(Self { path: path.to_owned(), text: DocumentMut::new() })
            }
            _ => Self::open(path),
        }
    }

    /// The credentials.
    pub(super) fn rules(&self) -> anyhow::Result<AuthRules> {
        AuthRules::parse(&self.text.to_string()).map_err(|error| anyhow!("{}: {error}", self.path.display()))
    }

    /// Adds a token behind the others. Fails if the result is not valid, such as a name that is taken.
    pub(super) fn add(&mut self, new: &NewToken<'_>) -> anyhow::Result<()> {
        let mut entry = Table::new();
        entry.insert("name", value(new.name));
        entry.insert("sha256", value(TokenDigest::of(new.token.expose()).to_string()));
        entry.insert("scopes", value(list(new.scopes.iter().map(|scope| scope.name()))));
        if !new.labels.is_empty() {
            let labels: InlineTable = new.labels.iter().collect();
            entry.insert("labels", value(labels));
        }
        if !new.tenants.is_empty() {
            entry.insert("tenants", value(list(new.tenants.iter().map(String::as_str))));
        }
        if let Some(at) = new.expires {
            let text = time::format_rfc3339(at, 0).replace(".000000", "");
            let moment: toml_edit::Datetime = text.parse().context("the time of expiry cannot be written")?;
            entry.insert("expires", value(moment));
        }
        for (key, number) in [("bytes_per_second", new.bytes_per_second), ("queries_max", new.queries_max)] {
            if let Some(number) = number {
                entry.insert(key, value(i64::try_from(number).context("a limit is too large")?));
            }
        }
        if new.fluentd {
            entry.insert("fluentd", value(true));
        }
        self.tokens()?.push(entry);
        // The line of an error in a text that is not on disk would mislead.
        AuthRules::parse(&self.text.to_string()).map(drop).map_err(|error| match error {
            bucksaw_auth::AuthFileError::Invalid { message, .. } => anyhow!("{message}"),
            error => error.into(),
        })
    }

    /// Removes a token, with the comment above it; whether there was one.
    pub(super) fn revoke(&mut self, name: &str) -> anyhow::Result<bool> {
        let tokens = self.tokens()?;
        let before = tokens.len();
        tokens.retain(|entry| entry.get("name").and_then(Item::as_str) != Some(name));
        Ok(tokens.len() < before)
    }

    fn tokens(&mut self) -> anyhow::Result<&mut ArrayOfTables> {
        let item = self.text.entry(TOKEN).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        item.as_array_of_tables_mut().context("write the tokens of the file as tables [[token]]")
    }

    /// Replaces the file at once: a node that reads it meanwhile sees the old or the new one. Owner and permissions stay.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        let shown = self.path.display();
        let draft = self.path.with_extension("tmp");
        let old = fs::metadata(&self.path).ok();
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(MODE).open(&draft);
        let mut file = file.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                anyhow!(
                    "{} is there: another command changes the file, or was interrupted; remove it if none does",
                    draft.display()
                )
            }
            _ => anyhow!(error).context(format!("cannot write {shown}")),
        })?;
        let written = (|| {
            file.write_all(self.text.to_string().as_bytes())?;
            if let Some(old) = old {
                // Only the owner and root may do this; then nothing changes, or the owner stays.
                let own = file.metadata()?;
                if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
                    std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
                }
                // Others never get a permission, whatever it was.
                file.set_permissions(Permissions::from_mode((old.mode() & 0o770) | MODE))?;
            }
            file.sync_all()?;
            fs::rename(&draft, &self.path)?;
            let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
            fs::File::open(dir)?.sync_all()
        })();
        written.map_err(|error| {
            // Fails if it was renamed.
            let _ = fs::remove_file(&draft);
            anyhow!(error).context(format!("cannot write {shown}"))
        })
    }
}

fn list<'a>(texts: impl Iterator<Item = &'a str>) -> Array {
    texts.map(Value::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &'static str, secret: &SecretText, labels: &str) -> NewToken<'static> {
        // The test needs no other secret.
        let token = Box::leak(Box::new(secret.clone()));
        NewToken {
            name,
            token,
            scopes: &[AccessScope::Ingest, AccessScope::Read],
            labels: Labels::parse(labels).unwrap(),
            tenants: &[],
            expires: Some(Millis(1_893_456_000_000)),
            bytes_per_second: Some(10_000_000),
            queries_max: Some(4),
            fluentd: false,
        }
    }

    #[test]
    fn edits_keep_comments_and_other_entries() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("auth.toml");
        let secret = SecretText::new("abc");
        let mut file = AuthFile::open_or_new(&path).unwrap();
        file.add(&token("first", &secret, "tenant=a")).unwrap();
        file.write().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("expires = 2030-01-01T00:00:00Z") && text.contains("labels = { tenant = \"a\" }"),
            "{text}"
        );
        assert!(!text.contains("abc"), "{text}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::write(
            &path,
            format!("# Of the web team.\n{text}\n[[group]] # of people\nname = \"sre\"\nscopes = [\"read\"]\n"),
        )
        .unwrap();
        let mut file = AuthFile::open(&path).unwrap();
        let other = SecretText::new("xyz");
        file.add(&token("second", &other, "")).unwrap();
        assert!(
            file.add(&token("second", &SecretText::new("u"), ""))
                .unwrap_err()
                .to_string()
                .contains("has the name second")
        );
        let mut file = AuthFile::open(&path).unwrap();
        file.add(&token("second", &other, "")).unwrap();
        file.write().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("# Of the web team.") && text.contains("[[group]] # of people"), "{text}");
        assert_eq!(AuthRules::parse(&text).unwrap().credentials(), 3);
        let mut file = AuthFile::open(&path).unwrap();
        assert!(!file.revoke("third").unwrap() && file.revoke("second").unwrap());
        file.write().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("# Of the web team.") && text.contains("first") && !text.contains("\"second\""),
            "{text}"
        );
    }

    #[test]
    fn permissions_stay_except_those_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("auth.toml");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        AuthFile::open(&path).unwrap().write().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
        fs::write(path.with_extension("tmp"), "").unwrap();
        assert!(AuthFile::open(&path).unwrap().write().unwrap_err().to_string().contains("auth.tmp is there"));
    }

    #[test]
    fn a_file_that_is_not_valid_is_not_edited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("auth.toml");
        fs::write(&path, "[[token]]\nname = \"a\"\n").unwrap();
        let error = AuthFile::open_or_new(&path).err().unwrap().to_string();
        assert!(error.contains("auth.toml: line "), "{error}");
    }
}
