//! Labels that an agent adds, unless the user set them. Their names are those of OpenTelemetry.

use bucksaw_record::Labels;

use crate::values::machine_name;

/// The name of this machine.
const HOST_NAME: &str = "host.name";

/// Adds the name of this machine.
pub(super) fn with_host(labels: Labels) -> Labels {
    with_label(labels, HOST_NAME, &machine_name())
}

/// Adds a label, unless there is one of that name or the value is empty. The end of a long value is cut.
pub(super) fn with_label(labels: Labels, name: &str, value: &str) -> Labels {
    if labels.get(name).is_some() || value.is_empty() {
        return labels;
    }
    let end = (0..=value.len().min(Labels::VALUE_BYTES_MAX)).rev().find(|end| value.is_char_boundary(*end));
    let value = &value[..end.unwrap_or_default()];
    // Too many labels: the user's have precedence.
    Labels::new(labels.iter().chain([(name, value)])).unwrap_or(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_added_unless_it_is_set() {
        let check = |labels: &str, value: &str, want: &str| {
            assert_eq!(with_label(Labels::parse(labels).unwrap(), "a", value), Labels::parse(want).unwrap());
        };
        check("app=web", "x", "a=x,app=web");
        check("a=b", "x", "a=b");
        check("app=web", "", "app=web");
        check("", &"ü".repeat(Labels::VALUE_BYTES_MAX), &format!("a={}", "ü".repeat(Labels::VALUE_BYTES_MAX / 2)));
        assert!(with_host(Labels::default()).get(HOST_NAME).is_some());
    }
}
