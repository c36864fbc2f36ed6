//! How many datagrams the kernel dropped because a socket's buffer was full.
//!
//! Linux states it in the last column of `/proc/net/udp` and `/proc/net/udp6` (see proc_net_udp(5)), where the column before
//! the last three is the socket's inode.

#![expect(clippy::disallowed_methods, reason = "reads /proc, which is of the real machine")]

use rustix::fs::fstat;

use super::datagram_socket::DatagramSocket;

const FILES: [&str; 2] = ["/proc/net/udp", "/proc/net/udp6"];

/// The longest file that is read. Each socket of the machine has a line of about 130 bytes.
const FILE_BYTES_MAX: usize = 4 << 20;

/// The dropped datagrams of one socket.
pub(super) struct KernelDrops {
    inode: String,
    known: u64,
}

impl KernelDrops {
    /// `None` for a Unix socket, whose senders wait instead.
    pub(super) fn of(socket: &DatagramSocket) -> Option<Self> {
        let DatagramSocket::Udp(udp) = socket else { return None };
        let inode = fstat(udp).ok()?.st_ino.to_string();
        Some(Self { inode, known: 0 })
    }

    /// Datagrams dropped since the last call; 0 where the system does not state them.
    pub(super) fn new_drops(&mut self) -> u64 {
        let dropped = FILES.iter().find_map(|file| dropped_of(&std::fs::read(file).ok()?, &self.inode));
        let dropped = dropped.unwrap_or(self.known);
        let new = dropped.saturating_sub(self.known);
        self.known = dropped;
        new
    }
}

/// The number in the line of an inode.
fn dropped_of(table: &[u8], inode: &str) -> Option<u64> {
    let table = str::from_utf8(table.get(..table.len().min(FILE_BYTES_MAX))?).ok()?;
    table.lines().skip(1).find_map(|line| {
        let mut columns = line.split_ascii_whitespace().rev();
        let dropped = columns.next()?;
        (columns.nth(2)? == inode).then(|| dropped.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drops_of_an_inode_are_found() {
        let table = b"   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n \
            312: 0100007F:2AF8 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 8112 2 0000000000000000 0\n \
            344: 0100007F:3039 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 8113 2 0000000000000000 17\n";
        assert_eq!(dropped_of(table, "8113"), Some(17));
        assert_eq!(dropped_of(table, "8112"), Some(0));
        assert_eq!(dropped_of(table, "2"), None);
        assert_eq!(dropped_of(b"", "2"), None);
    }
}
