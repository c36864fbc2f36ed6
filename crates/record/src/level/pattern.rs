//! A regex that finds the texts that may have a level, before the rule examines them one by one.

use super::{KEYS, Level};

/// A regex that matches every text that has one of `levels`, every attribute value that is the name of one, and others too. It
/// is meant for bytes, without Unicode, with `^` and `$` at the bounds of lines.
///
/// It has no word boundaries: an escape sequence may precede a word, and the examined prefix may end in one.
///
/// ```
/// # use bucksaw_record::{Level, level};
/// assert!(level::pattern(&[Level::Fatal]).contains("PANIC"));
/// ```
#[must_use]
pub fn pattern(levels: &[Level]) -> String {
    let mut alternatives = Vec::new();
    let names = || levels.iter().flat_map(|level| level.names().iter().copied());
    // A name that begins with another one is found by that.
    let shortest = || {
        let is_found = |name: &str| names().any(|other| other != name && name.starts_with(other));
        names().filter(move |name| !is_found(name)).collect::<Vec<_>>()
    };
    alternatives.push(shortest().join("|").to_ascii_uppercase());
    // In brackets or before a colon, the whole name counts.
    alternatives.push(format!("(?i:{})[]>:]", names().collect::<Vec<_>>().join("|")));
    let numbers: Vec<String> = levels.iter().map(|level| level.number().to_string()).collect();
    let values = format!("(?:{}|(?i:{}))", numbers.join("|"), shortest().join("|"));
    alternatives.push(format!(r#"(?i:{})"?\s*[:=]\s*"?{values}"#, KEYS.join("|")));
    if levels.contains(&Level::Info) {
        alternatives.push("LOG:".to_owned());
    }
    alternatives.push(format!("^(?i:{})$", names().collect::<Vec<_>>().join("|")));
    let letters: String = levels.iter().filter_map(|level| level.glog_letter()).collect();
    if !letters.is_empty() {
        alternatives.push(format!(r"\A[{letters}][0-9]{{4}} "));
    }
    alternatives.join("|")
}
