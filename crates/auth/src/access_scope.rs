//! What a credential may do.

use std::fmt;
use std::str::FromStr;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessScope {
    /// Writes records.
    Ingest,
    /// Reads records.
    Read,
    /// Operates nodes: their status and metrics, and what changes them.
    Admin,
}

impl AccessScope {
    /// All scopes.
    pub const ALL: [Self; 3] = [Self::Ingest, Self::Read, Self::Admin];

    /// The name in the auth file and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Ingest => 1,
            Self::Read => 2,
            Self::Admin => 4,
        }
    }
}

impl FromStr for AccessScope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| format!("scope `{text}` is not known: the scopes are ingest, read and admin"))
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct AccessScopes(u8);

impl AccessScopes {
    /// Whether the set has a scope.
    pub const fn has(self, scope: AccessScope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Whether the set has no scope.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes of the set, in the order of [`AccessScope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = AccessScope> {
        AccessScope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }
}

impl FromIterator<AccessScope> for AccessScopes {
    fn from_iter<I: IntoIterator<Item = AccessScope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl fmt::Display for AccessScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(AccessScope::name).collect();
        f.write_str(&names.join(","))
    }
}

impl fmt::Debug for AccessScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_scopes_that_it_was_made_of() {
        let scopes: AccessScopes = ["admin", "ingest"].iter().map(|name| name.parse().unwrap()).collect();
        assert_eq!(scopes.to_string(), "ingest,admin");
        assert!(scopes.has(AccessScope::Admin) && !scopes.has(AccessScope::Read));
        assert!(AccessScopes::default().is_empty() && !scopes.is_empty());
        assert!("Admin".parse::<AccessScope>().is_err());
    }
}
