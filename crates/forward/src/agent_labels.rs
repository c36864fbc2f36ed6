//! The labels of records whose sender states labels too.

use bucksaw_record::Labels;

/// The labels of a stream, and those of the agent that it has not. What a sender states has precedence.
pub(crate) fn with_agent_labels(stream: &Labels, agent: &Labels) -> Labels {
    let added = agent.iter().filter(|(name, _)| stream.get(name).is_none());
    // Too many labels: those of the sender stay.
    Labels::new(stream.iter().chain(added)).unwrap_or_else(|_| stream.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_the_sender_have_precedence() {
        let labels = |text| Labels::parse(text).unwrap();
        assert_eq!(
            with_agent_labels(&labels("app=a,host.name=x"), &labels("app=b,site=s")),
            labels("app=a,host.name=x,site=s")
        );
    }
}
