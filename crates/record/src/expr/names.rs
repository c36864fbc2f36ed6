//! The fields that an expression names, and the name nearest to a mistyped one.

use super::tree::{Expr, Field};

/// Characters of a name that are compared with others; longer names are not mistyped by hand.
const COMPARED_CHARS_MAX: usize = 100;

impl Expr {
    /// The names of the fields that the expression tests, each once, in order. The level is no field.
    ///
    /// ```
    /// # use bucksaw_record::Expr;
    /// let expr = Expr::parse(b"timeout status>=500 (host=a OR NOT host=b) @level=error").unwrap();
    /// assert_eq!(expr.field_names(), ["status", "host"]);
    /// ```
    #[must_use]
    pub fn field_names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.collect_names(&mut names);
        names
    }

    fn collect_names<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::All | Self::Literal(_) | Self::Regex(_) | Self::Level(_) | Self::Line(_) => {}
            Self::Field(Field { name, .. }) if names.contains(&name.as_str()) => {}
            Self::Field(Field { name, .. }) => names.push(name),
            Self::And(members) | Self::Or(members) => members.iter().for_each(|member| member.collect_names(names)),
            Self::Not(inner) => inner.collect_names(names),
        }
    }
}

/// The candidate of which `name` is probably a misspelling: the one with the fewest edits, at most a third of its
/// characters. An edit is a character more, less or different, or two exchanged; the case of ASCII letters does not
/// count. `None` if there is none, or if `name` itself is a candidate.
///
/// ```
/// # use bucksaw_record::expr::nearest_name;
/// assert_eq!(nearest_name("stauts", ["status", "state"]), Some("status"));
/// assert_eq!(nearest_name("Status", ["status", "state"]), Some("status"));
/// assert_eq!(nearest_name("user", ["status", "state"]), None);
/// ```
#[must_use]
pub fn nearest_name<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().take(COMPARED_CHARS_MAX + 1).count();
    if length > COMPARED_CHARS_MAX {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate == name {
            return None;
        }
        // A difference in length is a lower bound of the edits.
        let other_length = candidate.chars().take(2 * COMPARED_CHARS_MAX).count();
        if other_length.abs_diff(length) > length.div_ceil(3) {
            continue;
        }
        let edits = strsim::osa_distance(&lower, &candidate.to_ascii_lowercase());
        // One edit is a misspelling only of a name of three characters or more.
        let edits_max = if length < 3 { 0 } else { length.div_ceil(3) };
        if edits <= edits_max && best.is_none_or(|(fewest, _)| edits < fewest) {
            best = Some((edits, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        let check = |name: &str, candidates: &[&str], want: Option<&str>| {
            assert_eq!(nearest_name(name, candidates.iter().copied()), want, "{name}");
        };
        check("levle", &["level", "lever"], Some("level"));
        check("userid", &["user.id", "user_id", "id"], Some("user.id"));
        check("HOST", &["host", "ghost"], Some("host"));
        check("größe", &["grösse", "größer"], Some("größer"));
        check("host", &["hosts", "host"], None);
        check("a", &["b"], None);
        check("A", &["a"], Some("a"));
        check("trace", &["span", "status"], None);
        check("x", &[], None);
        check(&"x".repeat(101), &[&"x".repeat(100)], None);
    }
}
