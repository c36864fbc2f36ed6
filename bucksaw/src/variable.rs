//! Names of environment variables.

/// Commands and flags with a variable of their own and no key at the top of the file. Their values are of another kind
/// than those of equally named flags, or a range for `query` must not apply to `tail`, labels of records must not
/// limit new tokens, or an agent must not take the ports of the node beside it.
const OWN_VARIABLE: [(&str, &str); 18] = [
    ("add", "label"),
    ("generate", "count"),
    ("generate", "to"),
    ("generate", "listen"),
    ("generate", "kafka-option"),
    ("tail", "since"),
    ("forward", "listen"),
    ("forward", "insecure-listen"),
    ("forward", "listen-syslog"),
    ("forward", "listen-fluent"),
    ("forward", "listen-otlp"),
    ("forward", "listen-otlp-http"),
    ("forward", "tls-cert"),
    ("forward", "tls-key"),
    ("forward", "tls-client-ca"),
    ("forward", "tls-min-version"),
    ("certs", "dir"),
    ("certs", "days"),
];

/// Whether a flag of a command has a variable of its own, and its key is read in the table of the command only.
pub(crate) fn is_own(command: &str, long: &str) -> bool {
    OWN_VARIABLE.contains(&(command, long))
}

/// The environment variable of a long flag of a command.
pub(crate) fn variable(command: &str, long: &str) -> String {
    let own = if is_own(command, long) { format!("{command}-") } else { String::new() };
    format!("BUCKSAW_{own}{long}").to_ascii_uppercase().replace('-', "_")
}
