//! Lines of hosts: kernel, service manager, scheduled jobs, and SSH login attempts.

use super::line_table::LineTable;
use crate::incidents::LogLevel::{Debug, Error, Info, Warn};

pub(super) static TABLE: LineTable = LineTable {
    affixes: ("<syslog-time> <host> ", ""),
    rows: &[
        (
            Info,
            6,
            "sshd[<pid>]: Accepted publickey for deploy from <address> port <port> ssh2: ED25519 SHA256:<session>",
        ),
        (Info, 5, "systemd[1]: <unit>: Deactivated successfully."),
        (Info, 5, "systemd[1]: Started <unit>."),
        (Info, 4, "CRON[<pid>]: (root) CMD (/usr/local/bin/rotate --keep <few> --below <percent>%)"),
        (Info, 4, "kernel: [<uptime>] <device>: read-ahead window is <some> pages"),
        (Info, 3, "sshd[<pid>]: Received disconnect from <address> port <port>:11: bye"),
        (Info, 2, "kernel: [<uptime>] eth0: link is up, 10000 Mbps, full duplex"),
        (Info, 2, "chronyd[<pid>]: System clock wrong by 0.000<some> seconds"),
        (Warn, 8, "sshd[<pid>]: Failed password for invalid user <guess> from <address> port <port> ssh2"),
        (Warn, 3, "sshd[<pid>]: Connection closed by authenticating user <guess> <address> port <port> [preauth]"),
        (Warn, 3, "kernel: [<uptime>] TCP: request_sock_TCP: Possible SYN flooding on port 8080. Sending cookies."),
        (Warn, 2, "node-agent[<pid>]: <mount> is <percent>% full (<many> MB left)"),
        (Warn, 1, "kernel: [<uptime>] perf: interrupt took too long (<many> us), lowering the rate"),
        (
            Error,
            3,
            "kernel: [<uptime>] Out of memory: Killed process <pid> (<process>) total-vm:<many>kB, anon-rss:<many>kB, file-rss:0kB",
        ),
        (
            Error,
            2,
            "kernel: [<uptime>] I/O error, dev <device>, sector <growing> op 0x0:(READ) flags 0x0 phys_seg <few> prio class 2",
        ),
        (Error, 3, "systemd[1]: <unit>: Main process exited, code=exited, status=<few>/FAILURE"),
        (
            Error,
            2,
            "sudo: pam_unix(sudo:auth): authentication failure; logname= uid=1000 euid=0 tty=/dev/pts/<few> user=<guess>",
        ),
        (Debug, 1, "node-agent[<pid>]: scraped <some> counters in <ms.fraction> ms"),
        (Debug, 1, "dhclient[<pid>]: bound to <address>, renewal in <many> seconds."),
    ],
};
