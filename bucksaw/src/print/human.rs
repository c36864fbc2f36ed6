//! Numbers in readable units.

use std::fmt::Display;

/// Bytes with a unit: `512 B`, `1.5 MB`; units are powers of 1024.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1_024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    // 1024.0 would be printed as 1.0 of the next unit.
    while value >= 1_023.95 {
        let Some(next) = units.next() else { break };
        unit = Some(next);
        value /= 1_024.0;
    }
    format!("{value:.1} {}", unit.copied().unwrap_or_default())
}

/// Seconds with a unit that keeps the number short: `340 us`, `12 ms`, `3.4 s`, `15m`, `3h12m`, `5d4h`.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.000_5 => format!("{:.0} us", seconds * 1e6),
        seconds if seconds < 0.999_5 => format!("{:.0} ms", seconds * 1e3),
        seconds if seconds < 59.95 => format!("{seconds:.1} s"),
        seconds => {
            let minutes = (seconds / 60.0).round() as u64;
            match minutes {
                0..60 => format!("{minutes}m"),
                60..1_440 => format!("{}h{}m", minutes / 60, minutes % 60),
                _ => format!("{}d{}h", minutes / 1_440, minutes / 60 % 24),
            }
        }
    }
}

/// A number of things, such as `1 record` and `2 records`.
pub(crate) fn plural<N: Display + PartialEq + From<u8>>(count: N, one: &str) -> String {
    let end = if count == N::from(1) { "" } else { "s" };
    format!("{count} {one}{end}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_are_short() {
        let check = |bytes: u64, want: &str| assert_eq!(super::bytes(bytes), want);
        check(0, "0 B");
        check(1_023, "1023 B");
        check(1_024, "1.0 KB");
        check(1_536 << 10, "1.5 MB");
        check((1 << 20) - 1, "1.0 MB");
        check(16 << 30, "16.0 GB");
        check(u64::MAX, "16.0 EB");
    }

    #[test]
    fn seconds_are_short() {
        let check = |seconds: f64, want: &str| assert_eq!(super::seconds(seconds), want);
        check(0.0, "0 us");
        check(0.000_34, "340 us");
        check(0.012, "12 ms");
        check(0.999_9, "1.0 s");
        check(3.4, "3.4 s");
        check(59.99, "1m");
        check(900.0, "15m");
        check(11_520.0, "3h12m");
        check(446_400.0, "5d4h");
    }
}
