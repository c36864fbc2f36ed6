//! The tag of a message without RFC 5424 header: `su:`, `sshd[4711]:`, `postfix/smtpd[7]:`.

/// The maximum length of a program's name. RFC 3164 has 32; a longer word is rather a part of the message.
const NAME_BYTES_MAX: usize = 128;

/// The maximum length of a process id.
const PROCID_BYTES_MAX: usize = 64;

/// A program, its process id if stated, and the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyslogTag<'a> {
    pub(super) app: &'a [u8],
    pub(super) procid: &'a [u8],
    pub(super) line: &'a [u8],
}

/// Splits a text that starts with a tag: a word without spaces that ends with a colon, or with a number in brackets.
pub(super) fn take_tag(text: &[u8]) -> Option<SyslogTag<'_>> {
    let first = text.first()?;
    if !(first.is_ascii_alphanumeric() || matches!(first, b'/' | b'_' | b'.' | b'(')) {
        return None;
    }
    let mut at = 0;
    let mut has_letter = false;
    loop {
        let byte = *text.get(at).filter(|_| at <= NAME_BYTES_MAX)?;
        let (app, behind) = text.split_at(at);
        match byte {
            b':' if is_end(behind.get(1)) => {
                return has_letter.then(|| SyslogTag { app, procid: b"", line: without_space(behind.get(1..)) });
            }
            // A colon inside a name is accepted only as in `Foo::Bar`. Numbers such as those of
            // `audit(1131538222.234:0):` would make a stream of each message.
            b':' if behind.get(1) != Some(&b':') && !app.ends_with(b":") => return None,
            b'[' => return take_procid(app, behind.get(1..)?).filter(|_| has_letter),
            b' ' | b'\t' | b'\n' | b'\r' | b'=' | b'"' => return None,
            _ => has_letter |= byte.is_ascii_alphabetic() || byte >= 0x80,
        }
        at += 1;
    }
}

/// Takes `4711]: message`.
fn take_procid<'a>(app: &'a [u8], text: &'a [u8]) -> Option<SyslogTag<'a>> {
    let head = text.get(..PROCID_BYTES_MAX + 1).unwrap_or(text);
    let length = head.iter().position(|byte| matches!(byte, b']' | b' ')).filter(|length| *length > 0)?;
    let (procid, behind) = text.split_at(length);
    let behind = behind.strip_prefix(b"]")?;
    if let Some(line) = behind.strip_prefix(b":") {
        return Some(SyslogTag { app, procid, line: without_space(Some(line)) });
    }
    let is_number = procid.iter().all(u8::is_ascii_digit);
    (is_number && is_end(behind.first())).then(|| SyslogTag { app, procid, line: without_space(Some(behind)) })
}

fn is_end(byte: Option<&u8>) -> bool {
    byte.is_none_or(|byte| matches!(byte, b' ' | b'\n' | b'\t'))
}

/// The space behind a tag is no part of the message; further ones are.
fn without_space(text: Option<&[u8]>) -> &[u8] {
    let text = text.unwrap_or_default();
    text.strip_prefix(b" ").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_taken() {
        let check = |text: &str, want: Option<[&str; 3]>| {
            let got = take_tag(text.as_bytes());
            let got = got.map(|tag| [tag.app, tag.procid, tag.line].map(|part| str::from_utf8(part).unwrap()));
            assert_eq!(got, want, "{text}");
        };
        check("su: failed", Some(["su", "", "failed"]));
        check("su:", Some(["su", "", ""]));
        check("sudo:   root : TTY", Some(["sudo", "", "  root : TTY"]));
        check("sshd[4711]: x", Some(["sshd", "4711", "x"]));
        check("sshd[4711]:x", Some(["sshd", "4711", "x"]));
        check("sshd(pam_unix)[1]: x", Some(["sshd(pam_unix)", "1", "x"]));
        check("postfix/smtpd[1]: x", Some(["postfix/smtpd", "1", "x"]));
        check("/usr/sbin/cron[1]: x", Some(["/usr/sbin/cron", "1", "x"]));
        check("Foo::Bar[a.b]: x", Some(["Foo::Bar", "a.b", "x"]));
        check("com.apple.xpc.launchd[1] (a.b): x", Some(["com.apple.xpc.launchd", "1", "(a.b): x"]));
        check("kernel: [ 1.2] x", Some(["kernel", "", "[ 1.2] x"]));
        check("a[main] x", None);
        check("a[1]b", None);
        check("a[]: x", None);
        check("a[1", None);
        check("45: x", None);
        check("audit(1131538222.234:0): x", None);
        check("10:20:30 x", None);
        check("%ASA-6-1: x", None);
        check("http://x", None);
        check("two words: x", None);
        check("level=info: x", None);
        check("", None);
        check(&format!("{}: x", "a".repeat(129)), None);
    }
}
