//! Names of environment variables.

/// Commands and flags that share neither the variable nor the top key of an equally named flag, because the values are of
/// another kind, or because a range of `query` must not fill the screen of `tail`.
const OWN_VARIABLE: [(&str, &str); 2] = [("generate", "count"), ("tail", "since")];

/// Whether a flag of a command has a variable of its own, and its key is read in the table of the command only.
pub(crate) fn is_own(command: &str, long: &str) -> bool {
    OWN_VARIABLE.contains(&(command, long))
}

/// The environment variable of a long flag of a command.
pub(crate) fn variable(command: &str, long: &str) -> String {
    let own = if is_own(command, long) { format!("{command}-") } else { String::new() };
    format!("BUCKSAW_{own}{long}").to_ascii_uppercase().replace('-', "_")
}
