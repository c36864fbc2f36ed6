//! Clients cannot write the reserved label: their label of that name is renamed.

use bucksaw_record::Labels;

/// The name that a client's label [`Labels::RESERVED_NAME`] gets. If the records have a label of this name too, that one is kept
/// and the reserved one is dropped.
const RENAMED: &str = "exported_bucksaw";

/// The labels without the reserved one.
pub(super) fn renamed(labels: &Labels) -> Labels {
    let has_renamed = labels.get(RENAMED).is_some();
    let pairs = labels.iter().filter_map(|(name, value)| match name {
        Labels::RESERVED_NAME => (!has_renamed).then_some((RENAMED, value)),
        name => Some((name, value)),
    });
    // Neither the number of labels nor the lengths exceed what they were, so this does not fail.
    Labels::new(pairs).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserved_label_is_renamed() {
        let check = |labels: &str, want: &str| {
            assert_eq!(renamed(&Labels::parse(labels).unwrap()).to_string(), want);
        };
        check("_bucksaw=audit,app=x", "app=x,exported_bucksaw=audit");
        check("_bucksaw=audit", "exported_bucksaw=audit");
        check("_bucksaw=audit,exported_bucksaw=y", "exported_bucksaw=y");
        check("app=x", "app=x");
    }
}
