//! The member file `members.json`: the persisted digest, from which a node finds its peers after a restart.
//!
//! ```text
//!   {"format": 1, "incarnation": "<id>", "bootstrapping": true, "members": [{"facts": {…}, "departure": {…}}, …]}
//! ```
//! Without it a node needs `--join`, and does not list members that are down, which may have the only replicas of
//! records. So it has a backup ([`backed_up_file`](bucksaw_env::backed_up_file)), `members.backup`, which replaces a
//! damaged file. Without a valid backup, an invalid file is quarantined as `members.json.damaged`, or as
//! `members.json.newer` if it has a newer format.
//!
//! A version without backups may leave an outdated backup. Its file has a later incarnation, and takes precedence.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::Fs;
use bucksaw_env::backed_up_file::{self, BackedUpFile, BackupState};
use bucksaw_record::Id;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::entry::{Entry, is_false};
use crate::table::MEMBERS_MAX;

const FORMAT: u32 = 1;

/// Maximum size of the file: more than a thousand members need.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The member file.
#[derive(Clone, Debug)]
pub(crate) struct MemberFile {
    fs: Arc<dyn Fs>,
    path: PathBuf,
}

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PersistedMembers {
    /// The last incarnation of this node.
    pub(crate) incarnation: Id,
    /// Whether unknown nodes may exist. Omitted if false.
    pub(crate) is_bootstrapping: bool,
    pub(crate) members: Vec<Entry>,
}

/// Written with entries, and read with their JSON, so that an invalid entry does not spoil the others.
#[derive(Serialize, Deserialize)]
struct MemberFileContent<M> {
    format: u32,
    incarnation: Id,
    #[serde(default, skip_serializing_if = "is_false")]
    bootstrapping: bool,
    members: M,
}

impl MemberFile {
    pub(crate) fn new(fs: Arc<dyn Fs>, data_dir: &Path) -> Self {
        Self { fs, path: data_dir.join("members.json") }
    }

    /// The persisted members; `None` without a valid file.
    ///
    /// # Errors
    /// If the disk fails, or a damaged file cannot be quarantined.
    pub(crate) fn read(&self) -> io::Result<Option<PersistedMembers>> {
        let BackedUpFile { file, backup } = BackedUpFile::read(&*self.fs, &self.path, FILE_BYTES_MAX)?;
        let Some(bytes) = file else { return Ok(None) };
        let (members, path) = (parse(&bytes), self.path.display());
        let (backup, is_damaged) = match backup {
            BackupState::Valid(backup) if backup != bytes => (parse(&backup), true),
            BackupState::Newer(backup) => (parse(&backup), false),
            _ => (None, false),
        };
        if let Some(backup) = backup
            && members.as_ref().is_none_or(|members| members.incarnation <= backup.incarnation)
        {
            if is_damaged {
                tracing::warn!(%path, "members.json is damaged; using its backup");
            }
            return Ok(Some(backup));
        }
        if members.is_some() {
            return Ok(members);
        }
        // All formats have this field.
        let format = serde_json::from_slice::<serde_json::Value>(&bytes).ok().and_then(|file| file["format"].as_u64());
        let newer = format.filter(|format| *format > FORMAT.into());
        let quarantined = self.path.with_extension(if newer.is_some() { "json.newer" } else { "json.damaged" });
        self.fs.rename(&self.path, &quarantined)?;
        let (path, own) = (quarantined.display(), FORMAT);
        match newer {
            Some(format) => {
                tracing::warn!(%path, format, own, "members.json has a newer format and is quarantined; nodes are found by --join");
            }
            None => {
                tracing::warn!(%path, "members.json is damaged and quarantined; nodes are found by --join");
            }
        }
        Ok(None)
    }

    /// Replaces the file atomically.
    ///
    /// # Errors
    /// Those of the disk; the previous file remains.
    pub(crate) fn write(&self, members: &PersistedMembers) -> io::Result<()> {
        let written = MemberFileContent {
            format: FORMAT,
            incarnation: members.incarnation,
            bootstrapping: members.is_bootstrapping,
            members: &members.members,
        };
        let mut bytes = serde_json::to_vec_pretty(&written)?;
        bytes.push(b'\n');
        backed_up_file::write(&*self.fs, &self.path, &bytes)
    }
}

/// Decodes a file. Invalid members, which a newer version may write, are skipped.
fn parse(bytes: &[u8]) -> Option<PersistedMembers> {
    let content: MemberFileContent<Vec<&RawValue>> = serde_json::from_slice(bytes).ok()?;
    let MemberFileContent { format, incarnation, bootstrapping, members } = content;
    let members = members.into_iter().take(MEMBERS_MAX);
    let members = members.filter_map(|member| serde_json::from_str::<Entry>(member.get()).ok());
    let members = members.filter(Entry::is_valid).collect();
    (format >= FORMAT).then_some(PersistedMembers { incarnation, is_bootstrapping: bootstrapping, members })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bucksaw_env::sim;
    use bucksaw_record::{Millis, Producer};

    use crate::Facts;
    use crate::entry::{Departure, DepartureReason};

    fn persisted() -> PersistedMembers {
        let mut facts = Facts::new(Id::new(Millis(5), Producer::new(1), 0));
        facts.address = ([10, 0, 0, 1], 7_659).into();
        let departure = Some(Departure { reason: DepartureReason::Down, elapsed_ms: 5_000 });
        let members = vec![Entry { facts, departure, live: None, bootstrapping: false }];
        PersistedMembers { incarnation: Id::new(Millis(9), Producer::new(2), 0), is_bootstrapping: true, members }
    }

    fn member_file() -> (sim::Fs, MemberFile) {
        let fs = sim::Fs::new();
        fs.create_dir_all(Path::new("/data")).unwrap();
        (fs.clone(), MemberFile::new(Arc::new(fs), Path::new("/data")))
    }

    #[test]
    fn written_members_survive_a_power_cut() {
        let (fs, file) = member_file();
        assert_eq!(file.read().unwrap(), None);
        file.write(&PersistedMembers { members: Vec::new(), ..persisted() }).unwrap();
        file.write(&persisted()).unwrap();
        assert_eq!(file.read().unwrap(), Some(persisted()));
        let after = MemberFile::new(Arc::new(fs.cut_power(sim::PowerCutLoss::All, 0)), Path::new("/data"));
        assert_eq!(after.read().unwrap(), Some(persisted()));
    }

    #[test]
    fn a_damaged_file_is_quarantined() {
        let (fs, file) = member_file();
        for damaged in [&b"{\"format\":1,\"incarn"[..], b"", b"[]"] {
            fs.create(Path::new("/data/members.json")).unwrap().append(&[damaged]).unwrap();
            assert_eq!(file.read().unwrap(), None);
            assert_eq!(fs.live_bytes("/data/members.json.damaged").as_deref(), Some(damaged));
            assert_eq!(file.read().unwrap(), None);
        }
    }

    #[test]
    fn a_damaged_file_is_restored_from_its_backup() {
        for path in ["/data/members.json", "/data/members.backup"] {
            let bits = {
                let (fs, file) = member_file();
                file.write(&persisted()).unwrap();
                fs.live_bytes(path).unwrap().len() * 8
            };
            for bit in 0..bits {
                let (fs, file) = member_file();
                file.write(&persisted()).unwrap();
                fs.flip_bit(path, bit as u64);
                let found = file.read().unwrap().unwrap();
                // A flipped bit may make the incarnation later; the members are intact then.
                assert_eq!(found.members, persisted().members, "bit {bit} of {path}");
            }
        }
    }

    #[test]
    fn a_later_file_takes_precedence_over_an_outdated_backup() {
        let (fs, file) = member_file();
        file.write(&persisted()).unwrap();
        let newer = PersistedMembers {
            incarnation: Id::new(Millis(10), Producer::new(2), 0),
            is_bootstrapping: false,
            members: Vec::new(),
        };
        let backup = fs.live_bytes("/data/members.backup").unwrap();
        file.write(&newer).unwrap();
        fs.remove(Path::new("/data/members.backup")).unwrap();
        fs.create(Path::new("/data/members.backup")).unwrap().append(&[&backup]).unwrap();
        assert_eq!(file.read().unwrap(), Some(newer));
    }

    #[test]
    fn a_newer_format_is_read_if_possible_and_otherwise_quarantined() {
        let (fs, file) = member_file();
        file.write(&persisted()).unwrap();
        let text = String::from_utf8(fs.live_bytes("/data/members.json").unwrap()).unwrap();
        fs.remove(Path::new("/data/members.backup")).unwrap();
        let put = |text: &str| {
            fs.remove(Path::new("/data/members.json")).unwrap();
            fs.create(Path::new("/data/members.json")).unwrap().append(&[text.as_bytes()]).unwrap();
        };
        put(&text.replacen("\"format\": 1", "\"format\": 2, \"mood\": {}", 1));
        assert_eq!(file.read().unwrap(), Some(persisted()));
        put(r#"{"format": 3, "nodes": 7}"#);
        assert_eq!(file.read().unwrap(), None);
        assert!(fs.live_bytes("/data/members.json.newer").is_some());
        assert!(fs.live_bytes("/data/members.json.damaged").is_none());
    }

    #[test]
    fn invalid_members_are_skipped() {
        let (fs, file) = member_file();
        file.write(&persisted()).unwrap();
        let text = String::from_utf8(fs.live_bytes("/data/members.json").unwrap()).unwrap();
        let text = text.replacen("\"members\": [", "\"members\": [ {\"facts\": 7}, 7, ", 1);
        fs.remove(Path::new("/data/members.backup")).unwrap();
        fs.remove(Path::new("/data/members.json")).unwrap();
        fs.create(Path::new("/data/members.json")).unwrap().append(&[text.as_bytes()]).unwrap();
        assert_eq!(file.read().unwrap(), Some(persisted()));
    }
}
