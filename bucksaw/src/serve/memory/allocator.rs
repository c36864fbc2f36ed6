//! Has the allocator keep less, where there is little memory.
//!
//! The allocator of glibc keeps what was freed, in an arena for almost each thread, for the next one that asks. That is
//! fast, and takes several times what the node uses. It can be told otherwise only before the program starts, but for calls
//! that are not safe. So the program starts itself once more, in the same process, with the variables that it reads.
//! Measured under the same load with a limit of 128 MB, what the allocator kept: 9 to 34 MB as glibc is by itself, 7 to 14 MB
//! after the restart, and 28 to 94 MB with mimalloc.
//!
//! Another C library does not read the variables, and nothing changes.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use tracing::debug;

/// From this limit on it keeps what it likes.
const AMPLE: u64 = 1 << 30;

/// Two arenas; pieces of 128 KB and more are given back at once, and the ends of arenas too. The variables that are set
/// turn off that the allocator raises these by itself.
const SETTINGS: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "2"), ("MALLOC_MMAP_THRESHOLD_", "131072"), ("MALLOC_TRIM_THRESHOLD_", "131072")];

/// Starts the program once more if the limit asks for it and the variables are not set. Returns where it goes on as it
/// is. To be called before there are threads and locks.
pub(super) fn restart_for(limit: u64) {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    if limit >= AMPLE || is_set("GLIBC_TUNABLES") || SETTINGS.iter().any(|(name, _)| is_set(name)) {
        return;
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| "bucksaw".into());
    let arguments: Vec<OsString> = arguments.collect();
    let again = |program: &Path| {
        let mut command = std::process::Command::new(program);
        command.arg0(&name).args(arguments.clone()).envs(SETTINGS).exec()
    };
    // By its path, so that the process keeps its name in `ps`. A program that was removed is still there as the second.
    let _ = std::env::current_exe().map(|path| again(&path));
    let error = again(Path::new("/proc/self/exe"));
    debug!(%error, "cannot start again with settings of the allocator: it keeps more memory");
}
