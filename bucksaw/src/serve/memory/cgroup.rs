//! The memory limit of the control groups that the process is in, of version 1 and 2.
//!
//! `/proc/self/cgroup` has the groups, `/proc/self/mountinfo` their mounts. A limit of a group applies to all groups inside
//! it, so the least on the path to the root counts.

use std::path::{Component, Path, PathBuf};

/// Files with the limit of a group of version 2. Beyond the second, the kernel slows its processes down.
const NEW_FILES: [&str; 2] = ["memory.max", "memory.high"];

/// The file of version 1.
const OLD_FILE: &str = "memory.limit_in_bytes";

/// Version 1 writes "no limit" as the greatest number of pages. No machine has this much memory.
const NO_LIMIT: u64 = 1 << 60;

/// A limit, and the file that states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CgroupLimit {
    pub(super) bytes: u64,
    pub(super) file: PathBuf,
}

/// The least limit, given the text of `/proc/self/cgroup` and of `/proc/self/mountinfo`; `read` returns the text of a
/// file. Text that the kernel would not write states no limit.
pub(super) fn limit(groups: &str, mounts: &str, read: impl Fn(&Path) -> Option<String>) -> Option<CgroupLimit> {
    let mut least: Option<CgroupLimit> = None;
    for mount in mounts.lines().filter_map(Mount::parse) {
        let Some(group) = groups.lines().find_map(|line| group_of(line, mount.is_new)) else { continue };
        let files: &[&str] = if mount.is_new { &NEW_FILES } else { &[OLD_FILE] };
        for dir in mount.dirs(group) {
            for file in files.iter().map(|file| dir.join(file)) {
                let bytes = read(&file).and_then(|text| text.trim().parse().ok()).filter(|bytes| *bytes < NO_LIMIT);
                if let Some(bytes) = bytes.filter(|bytes| least.as_ref().is_none_or(|least| *bytes < least.bytes)) {
                    least = Some(CgroupLimit { bytes, file });
                }
            }
        }
    }
    least
}

/// The path of a memory group in a line of `/proc/self/cgroup`: `0::/path` of version 2, `4:memory,cpu:/path` of
/// version 1.
fn group_of(line: &str, is_new: bool) -> Option<&str> {
    let mut parts = line.splitn(3, ':');
    let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let is_it = if is_new { number == "0" && controllers.is_empty() } else { is_listed(controllers, "memory") };
    is_it.then_some(path)
}

fn is_listed(list: &str, word: &str) -> bool {
    list.split(',').any(|listed| listed == word)
}

/// A mount of memory groups.
struct Mount {
    /// The group that is at `point`.
    root: PathBuf,
    point: PathBuf,
    is_new: bool,
}

impl Mount {
    /// `35 31 0:32 ROOT POINT OPTIONS [TAG…] - TYPE SOURCE SUPER-OPTIONS`.
    fn parse(line: &str) -> Option<Self> {
        let (own, system) = line.split_once(" - ")?;
        let mut own = own.split(' ').skip(3);
        let (root, point) = (unescape(own.next()?), unescape(own.next()?));
        let mut system = system.split(' ');
        let is_new = match system.next()? {
            "cgroup2" => true,
            "cgroup" if is_listed(system.nth(1)?, "memory") => false,
            _ => return None,
        };
        Some(Self { root: root.into(), point: point.into(), is_new })
    }

    /// The directories of a group and its parents, up to the mounted one. A group outside that, which a container may
    /// have, counts as the mounted one.
    fn dirs(&self, group: &str) -> Vec<PathBuf> {
        let group = Path::new(group);
        let below = group.strip_prefix(&self.root).unwrap_or(Path::new(""));
        let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        let below = if is_plain { below } else { Path::new("") };
        below.ancestors().map(|part| self.point.join(part)).collect()
    }
}

/// A path of `mountinfo`, in which the kernel writes spaces, tabs, line ends and backslashes as `\040`.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(u8::is_ascii);
        match code.zip(part.get(3..)) {
            Some((code, rest)) => {
                path.push(code.into());
                path.push_str(rest);
            }
            None => {
                path.push('\\');
                path.push_str(part);
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const OLD_MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const NEW_MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn check(groups: &str, mounts: &str, files: &[(&str, &str)], want: Option<(u64, &str)>) {
        let files: HashMap<&Path, &str> = files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
        let found = limit(groups, mounts, |path| files.get(path).map(|text| (*text).to_owned()));
        assert_eq!(found, want.map(|(bytes, file)| CgroupLimit { bytes, file: file.into() }), "{groups}");
    }

    #[test]
    fn the_least_limit_of_a_group_and_its_parents_counts() {
        let dir = "/sys/fs/cgroup/memory";
        let (a, b, root) =
            (format!("{dir}/a/{OLD_FILE}"), format!("{dir}/a/b/{OLD_FILE}"), format!("{dir}/{OLD_FILE}"));
        let none = "9223372036854771712\n";
        let groups = "5:devices:/a\n4:memory:/a/b\n0::/\n";
        check(groups, OLD_MOUNTS, &[(&b, "200\n"), (&a, "100\n"), (&root, none)], Some((100, &a)));
        check(groups, OLD_MOUNTS, &[(&b, "200\n"), (&a, none), (&root, none)], Some((200, &b)));
        check(groups, OLD_MOUNTS, &[(&b, none), (&a, none), (&root, none)], None);
        check(groups, OLD_MOUNTS, &[], None);
        check("3:cpu:/a\n4:hugetlb,memory:/a\n", OLD_MOUNTS, &[(&a, "7")], Some((7, &a)));

        let (max, high) = ("/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.high");
        check("0::/a/b\n", NEW_MOUNTS, &[(max, "max\n"), (high, "300\n")], Some((300, high)));
        check("0::/a/b\n", NEW_MOUNTS, &[(max, "200\n"), (high, "300\n")], Some((200, max)));
        check("0::/a/b\n", NEW_MOUNTS, &[(max, "max\n"), (high, "max\n")], None);
        check("0::/a/b\n", NEW_MOUNTS, &[(max, "0\n")], Some((0, max)));
    }

    #[test]
    fn groups_of_containers_are_found() {
        // The host's path, mounted at the group itself.
        let mounts = "35 31 0:32 /docker/x\\040y /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let (own, inner) =
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/in/memory.limit_in_bytes");
        check("4:memory:/docker/x y\n", mounts, &[(own, "50")], Some((50, own)));
        check("4:memory:/docker/x y/in\n", mounts, &[(own, "50"), (inner, "40")], Some((40, inner)));
        // A path that is not under the mount.
        check("4:memory:/elsewhere\n", mounts, &[(own, "50")], Some((50, own)));
        let own = "/sys/fs/cgroup/memory.max";
        check("0::/../../other\n", NEW_MOUNTS, &[(own, "60")], Some((60, own)));
    }

    #[test]
    fn text_that_the_kernel_would_not_write_states_no_limit() {
        let file = "/sys/fs/cgroup/memory.max";
        for text in ["", "many", "-1", "1.5", "99999999999999999999999", "12 13"] {
            check("0::/\n", NEW_MOUNTS, &[(file, text)], None);
        }
        for groups in ["", "0", "0:", "0:/", ":::", "0:memory", "memory"] {
            check(groups, NEW_MOUNTS, &[(file, "5")], None);
        }
        for mounts in ["", " - ", "- cgroup2", "1 2 3 - cgroup2 x y", "1 2 3 / - cgroup2 x", "1 2 3 / /sys - cgroup x"]
        {
            check("0::/\n4:memory:/\n", mounts, &[(file, "5")], None);
        }
        assert_eq!(unescape("a\\040b\\134\\04\\9xx\\777\\é"), "a b\\\\04\\9xx\\777\\é");
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(groups in ".{0,80}", mounts in ".{0,120}", text in ".{0,20}", path in "[/.a-z]{0,20}") {
            let _ = limit(&groups, &mounts, |_| Some(text.clone()));
            let _ = limit(&format!("0::{path}\n4:memory:{path}"), OLD_MOUNTS, |file| {
                assert!(file.starts_with("/sys/fs/cgroup"), "{file:?}");
                Some(text.clone())
            });
            let _ = limit("0::/", &format!("1 2 3 {path} {mounts} - cgroup2 x y"), |_| None);
        }
    }
}
