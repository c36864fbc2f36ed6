//! Errors that pass: the same operation may succeed later.

use std::io::{self, ErrorKind};

use rustix::io::Errno;

/// A resource that has run out and may become free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Bytes or files of the file system, or of the user's quota.
    Space,
    /// File descriptors of the process or of the machine.
    Descriptors,
}

impl Shortage {
    /// The shortage that caused an error, if one did.
    ///
    /// ```
    /// use bucksaw_env::Shortage;
    /// use std::io::{Error, ErrorKind};
    /// assert_eq!(Shortage::from_error(&Error::from(ErrorKind::StorageFull)), Some(Shortage::Space));
    /// assert_eq!(Shortage::from_error(&Error::from(ErrorKind::NotFound)), None);
    /// ```
    pub fn from_error(error: &io::Error) -> Option<Self> {
        match (error.kind(), error.raw_os_error().map(Errno::from_raw_os_error)) {
            (ErrorKind::StorageFull | ErrorKind::QuotaExceeded, _) => Some(Self::Space),
            (_, Some(Errno::MFILE | Errno::NFILE)) => Some(Self::Descriptors),
            _ => None,
        }
    }

    /// Whether an error means that the disk is full or a quota is used up.
    pub fn is_disk_full(error: &io::Error) -> bool {
        Self::from_error(error) == Some(Self::Space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_operating_system_are_classified() {
        let check = |errno: Errno, want| assert_eq!(Shortage::from_error(&errno.into()), want, "{errno}");
        check(Errno::NOSPC, Some(Shortage::Space));
        check(Errno::DQUOT, Some(Shortage::Space));
        check(Errno::MFILE, Some(Shortage::Descriptors));
        check(Errno::NFILE, Some(Shortage::Descriptors));
        check(Errno::IO, None);
        check(Errno::NOENT, None);
    }
}
