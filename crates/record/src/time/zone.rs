//! Parses time zones.
//!
//! The rules of named zones are part of the program, so a name means the same on every node and in a simulation. Only
//! `local` depends on the machine.

use jiff::tz::{Offset, TimeZone};

use super::event;
use super::invalid::InvalidTime;

/// Parses a time zone, in which times without one are read.
///
/// - an IANA name such as `Europe/Berlin`, in any case;
/// - `UTC` or `Z`;
/// - an offset from UTC: `+02:00`, `-0330`, `+02`. A space in place of `+` is accepted, since URLs decode `+` to a space;
/// - `local`: the zone of this machine, by the variable `TZ` or else `/etc/localtime`; UTC if there is neither.
///
/// # Errors
/// [`InvalidTime::Zone`].
pub fn parse_zone(text: &str) -> Result<TimeZone, InvalidTime> {
    let name = text.trim_ascii();
    let zone = match name {
        "local" => Some(TimeZone::system()),
        "Z" | "z" => Some(TimeZone::UTC),
        _ => {
            let decoded = text.strip_prefix(' ').filter(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
            let offset = decoded.map_or_else(|| name.to_owned(), |rest| format!("+{}", rest.trim_ascii_end()));
            let seconds = event::parse_offset(offset.as_bytes()).and_then(|seconds| i32::try_from(seconds).ok());
            match seconds {
                Some(seconds) => Offset::from_seconds(seconds).ok().map(TimeZone::fixed),
                None => TimeZone::get(name).ok(),
            }
        }
    };
    zone.ok_or_else(|| InvalidTime::Zone(text.to_owned()))
}

/// The name of a time zone, which is the same in all versions of the program: two zones with one name have the same rules,
/// apart from those of different machines that `local` found without a name.
pub fn zone_name(zone: &TimeZone) -> String {
    match (zone.iana_name(), zone.to_fixed_offset()) {
        (Some(name), _) => name.to_owned(),
        (None, Ok(offset)) => format!("{:+}", offset.seconds()),
        (None, Err(_)) => "local".to_owned(),
    }
}
