//! A text that must not be shown.

use std::fmt;

/// A token or password. Its debug form does not show it, and it has no other form of text, so that it reaches no log by
/// accident.
#[derive(Clone)]
pub struct SecretText(String);

impl SecretText {
    /// A secret of any text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, to compare it or to send it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_debug_form_does_not_show_the_text() {
        let shown = format!("{:?}", Some(SecretText::new("bks_abc")));
        assert!(!shown.contains("bks") && !shown.contains("abc"), "{shown}");
    }
}
