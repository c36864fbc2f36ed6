//! Makes the allocator return freed memory, under a small memory limit.
//!
//! The allocator of glibc keeps freed memory in an arena for almost each thread. This is fast, but may take several
//! times the memory that the node uses. Without unsafe calls, only environment variables configure it, and it reads
//! them at the start. So the program executes itself again in the same process. Under equal load with a limit of 128
//! MB, glibc kept 9 to 34 MB without the variables and 7 to 14 MB with them; mimalloc kept 28 to 94 MB.
//!
//! Other C libraries ignore the variables.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use tracing::debug;

/// Limit from which on the defaults remain.
const AMPLE: u64 = 1 << 30;

/// Two arenas; allocations of 128 KB and more, and the ends of arenas, are returned at once. Setting the thresholds
/// also turns off their automatic growth.
const SETTINGS: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "2"), ("MALLOC_MMAP_THRESHOLD_", "131072"), ("MALLOC_TRIM_THRESHOLD_", "131072")];

/// Executes the program again if the limit is small and the variables are not set; else returns. Call it before any
/// thread or lock exists.
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
    // By its path, so that the process keeps its name in `ps`. A deleted program is still at the second path.
    let _ = std::env::current_exe().map(|path| again(&path));
    let error = again(Path::new("/proc/self/exe"));
    debug!(%error, "cannot restart with settings of the allocator: it keeps more memory");
}
