//! Switches in environment variables and files.

/// Reads a switch. An empty variable counts as unset.
pub(crate) fn switch(text: &str) -> Result<bool, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "y" | "on" | "t" => Ok(true),
        "false" | "0" | "no" | "n" | "off" | "f" | "" => Ok(false),
        _ => Err("expected true or false"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_parse() {
        for (text, want) in [("true", true), ("1", true), ("ON", true), ("false", false), ("0", false), ("", false)] {
            assert_eq!(switch(text), Ok(want), "{text}");
        }
        assert!(switch("maybe").is_err());
    }
}
