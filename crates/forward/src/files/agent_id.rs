//! The id by which nodes know an agent. It is kept in the state directory, so it is the same after a restart.

use std::io;
use std::path::Path;

use bucksaw_env::{Env, read_file, replace};

/// The file with the id, as 32 hexadecimal digits.
const FILE: &str = "agent.id";

/// A longer file is damaged.
const FILE_BYTES_MAX: u64 = 64;

/// The id in this directory; a new one if there is none, or if it is damaged.
///
/// # Errors
/// Those of the file system.
pub(crate) fn agent_id(env: &Env, state_dir: &Path) -> io::Result<[u8; 16]> {
    let path = state_dir.join(FILE);
    match read_file(&*env.fs, &path, FILE_BYTES_MAX) {
        Ok(bytes) => {
            if let Some(id) = bytes.as_deref().and_then(parse) {
                return Ok(id);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
        Err(error) => return Err(error),
    }
    let id = u128::from(env.entropy.next_u64()) << 64 | u128::from(env.entropy.next_u64());
    replace(&*env.fs, &path, &[format!("{id:032x}\n").as_bytes()])?;
    Ok(id.to_be_bytes())
}

fn parse(bytes: &[u8]) -> Option<[u8; 16]> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u128::from_str_radix(text, 16).ok())?.map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bucksaw_env::sim::{Clock, Entropy, Fs};

    use super::*;

    #[test]
    fn an_id_stays_until_it_is_damaged() {
        let fs = Fs::new();
        let open = |seed| Env {
            fs: Arc::new(fs.clone()),
            clock: Arc::new(Clock::at_unix_ms(1)),
            entropy: Arc::new(Entropy::seeded(seed)),
        };
        let first = agent_id(&open(1), Path::new("/")).unwrap();
        assert_eq!(agent_id(&open(2), Path::new("/")).unwrap(), first);
        fs.write_from("/agent.id", 5, b"").unwrap();
        let second = agent_id(&open(3), Path::new("/")).unwrap();
        assert_ne!(second, first);
        assert_eq!(agent_id(&open(4), Path::new("/")).unwrap(), second);
    }
}
