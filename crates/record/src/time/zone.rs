//! Parses time zones.
//!
//! The rules of named zones are part of the program, so a name has one meaning on all nodes and in a simulation. Only
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

/// The name of a time zone, in the form that [`parse_zone`] reads. It is the same in all versions of the program.
/// `local` if that is how the zone was found, and it has no name.
///
/// ```
/// use bucksaw_record::time::{parse_zone, zone_name};
/// assert_eq!(zone_name(&parse_zone("europe/berlin").unwrap()), "Europe/Berlin");
/// assert_eq!(zone_name(&parse_zone("-0330").unwrap()), "-03:30");
/// ```
pub fn zone_name(zone: &TimeZone) -> String {
    match (zone.iana_name(), zone.to_fixed_offset()) {
        (Some(name), _) => name.to_owned(),
        (None, Ok(offset)) => {
            let (sign, minutes) = (if offset.seconds() < 0 { '-' } else { '+' }, offset.seconds().unsigned_abs() / 60);
            format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
        }
        (None, Err(_)) => "local".to_owned(),
    }
}
