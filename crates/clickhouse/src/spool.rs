//! Pieces that wait for ClickHouse, as files: `<token>-<records>.rows`, compressed by zstd, and encrypted if the node has keys.
//!
//! A piece is written before the store has its segment, and removed after ClickHouse has its rows. So a kill at any moment
//! loses none; a piece that is sent again has the same token, and ClickHouse drops it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bucksaw_env::{Env, KeyId, lock, read_file};
use bucksaw_record::{Id, Millis};

use crate::pieces::SegmentPiece;

/// The compression: three times faster than the disk takes the result.
const ZSTD_LEVEL: i32 = 1;

/// The longest file that is read, in bytes. A piece is at most one record longer than the bytes of an insert.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What an encrypted file begins with; zstd begins otherwise.
const ENCRYPTED_MAGIC: [u8; 8] = *b"BSWROWSE";

const EXTENSION: &str = ".rows";
const DRAFT_EXTENSION: &str = ".tmp";
const DAMAGED_EXTENSION: &str = ".damaged";

/// A directory of pieces.
#[derive(Debug)]
pub(crate) struct Spool {
    env: Env,
    dir: PathBuf,
    /// Names and sizes of the files. They begin with the id of a segment, so the oldest are first.
    files: Mutex<BTreeMap<String, u64>>,
}

/// A piece in the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpooledPiece {
    pub(crate) name: String,
    /// The token of its insert.
    pub(crate) token: String,
    pub(crate) records: u64,
}

impl Spool {
    /// Opens the directory, which is created if it is missing. Drafts of an earlier process are removed.
    pub(crate) fn open(env: Env, dir: PathBuf) -> io::Result<Self> {
        env.fs.create_dir_all(&dir)?;
        let mut files = BTreeMap::new();
        for name in env.fs.list(&dir)? {
            let path = dir.join(&name);
            if name.ends_with(DRAFT_EXTENSION) {
                env.fs.remove(&path)?;
            } else if SpooledPiece::parse(&name).is_some() {
                files.insert(name, env.fs.stat(&path)?.size);
            }
        }
        Ok(Self { env, dir, files: Mutex::new(files) })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes a piece, unless it is there because its batch was fetched before. It is durable after [`Self::sync`], and may be
    /// sent before: the queue has its records too.
    pub(crate) fn add(&self, piece: &SegmentPiece) -> io::Result<()> {
        let name = format!("{}-{}{EXTENSION}", piece.token, piece.records);
        if lock(&self.files).contains_key(&name) {
            return Ok(());
        }
        let mut bytes = zstd::bulk::compress(&piece.rows, ZSTD_LEVEL)?;
        let cipher = self.env.fs.keys().and_then(|keys| keys.writer(&key_name(&name)));
        if let Some(cipher) = cipher {
            bytes = [&ENCRYPTED_MAGIC[..], &cipher.encrypt(&[], &[&bytes])?].concat();
        }
        self.write(&name, &bytes)?;
        lock(&self.files).insert(name, bytes.len() as u64);
        Ok(())
    }

    /// Makes all pieces durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.env.fs.sync_dir(&self.dir)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let draft = self.dir.join(format!("{name}{DRAFT_EXTENSION}"));
        let remove = |error| {
            // It is removed at the next start otherwise.
            let _ = self.env.fs.remove(&draft);
            error
        };
        let file = self.env.fs.create(&draft)?;
        let written = file.append(&[bytes]).and_then(|()| file.sync());
        written.and_then(|()| self.env.fs.rename(&draft, &self.dir.join(name))).map_err(remove)
    }

    /// The oldest pieces.
    pub(crate) fn first(&self, count: usize) -> Vec<SpooledPiece> {
        lock(&self.files).keys().take(count).filter_map(|name| SpooledPiece::parse(name)).collect()
    }

    /// The rows of a piece, compressed. `PermissionDenied` if its encryption key is unknown: the piece is not damaged.
    pub(crate) fn read(&self, piece: &SpooledPiece) -> io::Result<Vec<u8>> {
        let bytes = read_file(&*self.env.fs, &self.dir.join(&piece.name), FILE_BYTES_MAX)?;
        let bytes = bytes.ok_or(io::ErrorKind::NotFound)?;
        let Some(encrypted) = bytes.strip_prefix(&ENCRYPTED_MAGIC) else { return Ok(bytes) };
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the piece does not decrypt");
        let key = KeyId::of_part(encrypted).ok_or_else(damaged)?;
        let cipher = self.env.fs.keys().and_then(|keys| keys.reader(key, &key_name(&piece.name)));
        let cipher = cipher.ok_or_else(|| {
            let problem = format!("{} is encrypted with key {key}, which is not among the encryption keys", piece.name);
            io::Error::new(io::ErrorKind::PermissionDenied, problem)
        })?;
        cipher.decrypt(&[], encrypted.to_vec()).ok_or_else(damaged)
    }

    /// Removes a piece that ClickHouse has.
    pub(crate) fn remove(&self, piece: &SpooledPiece) -> io::Result<()> {
        self.env.fs.remove(&self.dir.join(&piece.name))?;
        lock(&self.files).remove(&piece.name);
        Ok(())
    }

    /// Puts a piece aside that cannot be read. Its file stays.
    pub(crate) fn put_aside(&self, piece: &SpooledPiece) {
        let path = self.dir.join(&piece.name);
        // A file that is missing cannot be renamed.
        let _ = self.env.fs.rename(&path, &self.dir.join(format!("{}{DAMAGED_EXTENSION}", piece.name)));
        lock(&self.files).remove(&piece.name);
    }

    /// The number of pieces, and the bytes of their files.
    pub(crate) fn size(&self) -> (u64, u64) {
        let files = lock(&self.files);
        (files.len() as u64, files.values().sum())
    }

    /// When the queue segment of the oldest piece was begun.
    pub(crate) fn oldest(&self) -> Option<Millis> {
        lock(&self.files).keys().next().and_then(|name| SpooledPiece::parse(name)?.begun())
    }
}

/// What the key of a file follows from.
fn key_name(name: &str) -> Vec<u8> {
    [&ENCRYPTED_MAGIC[..], name.as_bytes()].concat()
}

impl SpooledPiece {
    /// When its queue segment was begun: tokens begin with the id of the segment.
    fn begun(&self) -> Option<Millis> {
        self.token.split('-').next()?.parse::<Id>().ok().map(Id::time)
    }

    fn parse(name: &str) -> Option<Self> {
        let (token, records) = name.strip_suffix(EXTENSION)?.rsplit_once('-')?;
        Some(Self { name: name.to_owned(), token: token.to_owned(), records: records.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bucksaw_env::sim;
    use bucksaw_record::Producer;

    use super::*;

    fn env() -> Env {
        let (clock, entropy) = (Arc::new(sim::Clock::at_unix_ms(0)), Arc::new(sim::Entropy::seeded(1)));
        Env { fs: Arc::new(sim::Fs::new()), clock, entropy }
    }

    fn add(spool: &Spool, number: u32) {
        let piece = SegmentPiece { token: format!("id-{number:06}-00"), rows: vec![7; 1_000], records: 3 };
        spool.add(&piece).unwrap();
        spool.sync().unwrap();
    }

    #[test]
    fn the_oldest_piece_has_the_time_of_its_segment() {
        let spool = Spool::open(env(), PathBuf::from("/data/clickhouse")).unwrap();
        assert_eq!(spool.oldest(), None);
        for ms in [9_000, 7_000] {
            let id = Id::new(Millis(ms), Producer::new(5), 0);
            spool.add(&SegmentPiece { token: format!("{id}-000001-00"), rows: vec![1], records: 1 }).unwrap();
        }
        assert_eq!(spool.oldest(), Some(Millis(7_000)));
    }

    #[test]
    fn pieces_stay_until_they_are_removed() {
        let env = env();
        let dir = PathBuf::from("/data/clickhouse");
        let spool = Spool::open(env.clone(), dir.clone()).unwrap();
        [2, 1, 1, 3].into_iter().for_each(|number| add(&spool, number));
        env.fs.create(&dir.join("x.rows.tmp")).unwrap();
        let spool = Spool::open(env, dir).unwrap();
        let tokens: Vec<String> = spool.first(2).into_iter().map(|piece| piece.token).collect();
        assert_eq!((tokens, spool.size().0), (vec!["id-000001-00".to_owned(), "id-000002-00".to_owned()], 3));
        let first = spool.first(1).remove(0);
        assert_eq!(zstd::bulk::decompress(&spool.read(&first).unwrap(), 2_000).unwrap(), vec![7; 1_000]);
        spool.remove(&first).unwrap();
        spool.put_aside(&spool.first(1).remove(0));
        assert_eq!((spool.size().0, spool.first(9).len()), (1, 1));
        spool.remove(&spool.first(1).remove(0)).unwrap();
        assert_eq!(spool.size(), (0, 0));
    }
}
