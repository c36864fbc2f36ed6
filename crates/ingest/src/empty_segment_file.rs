//! The file of a segment before its first record: a header.
//!
//! The next start removes such a file ([`Queue::open`](crate::Queue::open)).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::{Env, File, FileCipher};
use bucksaw_record::{Id, Millis};
use bucksaw_segment::FileHeader;
use bucksaw_segment::queue::{encode_header, frame_cipher};

use crate::append::Durability;
use crate::queue_file::remove_file;

/// A file with a header and no records.
pub(crate) struct EmptySegmentFile {
    pub(crate) id: Id,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn File>,
    pub(crate) version: u32,
    /// Encrypts its frames, if the node has keys.
    pub(crate) cipher: Option<Arc<dyn FileCipher>>,
    /// Whether its name is durable.
    pub(crate) is_name_synced: bool,
}

impl EmptySegmentFile {
    /// Creates the file in the directory of the queue.
    pub(crate) fn create(env: &Env, dir: &Path, durability: Durability, version: u32) -> io::Result<Self> {
        let id = durability.segment_id(Millis(env.clock.unix_ms()), env.entropy.next_u64());
        let path = dir.join(format!("{id}.active"));
        let file = env.fs.create(&path)?;
        let cipher = frame_cipher(&*file, id);
        let header = FileHeader { id, version }.with_encryption(cipher.is_some());
        let created = Self { id, path, file, version, cipher, is_name_synced: false };
        let written = created.file.append(&[&encode_header(header)]);
        written.inspect_err(|_| created.remove(env))?;
        Ok(created)
    }

    /// Removes the file. If that fails, the next start does it.
    pub(crate) fn remove(&self, env: &Env) {
        let _ = remove_file(env, &self.path);
    }
}
