//! Ids and times in JSON.

/// An [`bucksaw_record::Id`] as its 26 characters.
pub(crate) mod id {
    use std::borrow::Cow;

    use bucksaw_record::Id;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(id: &Id, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// A [`bucksaw_record::Millis`] that may be missing, as a number.
pub(crate) mod millis {
    use bucksaw_record::Millis;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(crate) fn serialize<S: Serializer>(at: &Option<Millis>, serializer: S) -> Result<S::Ok, S::Error> {
        at.map(|at| at.0).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Millis>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(|at| Millis(at.min(Millis::MAX.0))))
    }
}
