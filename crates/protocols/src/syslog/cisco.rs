//! What Cisco devices put into a header: a sequence number before the time, a zone and a colon behind it, and the mnemonic
//! of the message, as in `29: *Mar  1 18:46:11.123 UTC: %SYS-5-CONFIG_I: Configured`.

/// Takes a sequence number and its colon from `29: *Mar …`.
pub(super) fn take_sequence(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = text.iter().take(20).take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(length);
    Some((digits, rest.strip_prefix(b": ")?)).filter(|_| length > 0)
}

/// Takes the end of a time and the colon behind it from ` UTC: %SYS…`: the name of the zone, which may be missing, and the
/// message.
pub(super) fn take_time_end(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some(line) = text.strip_prefix(b": ") {
        return Some((b"", line));
    }
    let zone_from = text.strip_prefix(b" ")?;
    let length = zone_from.iter().take(6).take_while(|byte| byte.is_ascii_uppercase()).count();
    let (zone, rest) = zone_from.split_at(length);
    Some((zone, rest.strip_prefix(b": ")?)).filter(|(_, line)| length > 0 && mnemonic(line).is_some())
}

/// The mnemonic of a message: `SYS-5-CONFIG_I` of `%SYS-5-CONFIG_I: Configured`.
pub(super) fn mnemonic(line: &[u8]) -> Option<&[u8]> {
    let name_from = line.strip_prefix(b"%")?;
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let length = name_from.iter().take(100).take_while(|byte| is_part(byte)).count();
    let (name, rest) = name_from.split_at(length);
    let parts = name.split(|byte| *byte == b'-').count();
    (parts >= 3 && rest.starts_with(b":")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_taken() {
        assert_eq!(take_sequence(b"29: x"), Some((&b"29"[..], &b"x"[..])));
        assert_eq!(take_sequence(b": x"), None);
        assert_eq!(take_sequence(b"29 x"), None);
        assert_eq!(take_time_end(b": x"), Some((&b""[..], &b"x"[..])));
        assert_eq!(take_time_end(b" CEST: %A-1-B: x"), Some((&b"CEST"[..], &b"%A-1-B: x"[..])));
        assert_eq!(take_time_end(b" WEB: x"), None);
        assert_eq!(take_time_end(b" host x"), None);
        assert_eq!(mnemonic(b"%ASA-6-305011: Built"), Some(&b"ASA-6-305011"[..]));
        assert_eq!(mnemonic(b"%SYS-SP-5-RESTART: x"), Some(&b"SYS-SP-5-RESTART"[..]));
        for bad in [&b""[..], b"%", b"%a", b"%a-b: x", b"%a-b-c x", b"a-1-b: x"] {
            assert_eq!(mnemonic(bad), None);
        }
    }
}
