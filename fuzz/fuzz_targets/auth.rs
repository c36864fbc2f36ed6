//! Auth files, and credentials in headers: any bytes are read or refused.
#![no_main]
use bucksaw_auth::{AuthRules, ExternalUser, token_of_authorization, token_of_cookie};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = str::from_utf8(data)
        && let Ok(rules) = AuthRules::parse(text)
    {
        for principal in rules.tokens() {
            assert!(!principal.name.is_empty() && !principal.scopes.is_empty());
            for tenant in [None, Some(""), Some("a")] {
                let scope = principal.label_scope(tenant);
                // A principal with labels is never without a scope.
                assert!(principal.is_unlimited() || !matches!(scope, Ok(None)));
            }
        }
    }
    // The headers of a proxy: a name, and groups.
    if let Some((name, groups)) = str::from_utf8(data).ok().and_then(|text| text.split_once('\n'))
        && let Some(user) = ExternalUser::of_headers(name, groups)
    {
        assert!(!user.name().is_empty() && user.groups().iter().all(|group| !group.is_empty()));
    }
    if let Ok(token) = token_of_authorization(data) {
        assert!(!token.expose().is_empty());
    }
    if let Some(token) = token_of_cookie(data) {
        assert!(!token.expose().contains(';'));
    }
});
