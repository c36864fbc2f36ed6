use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair as _,
};
use serde_json::json;

use super::*;

const NOW: Millis = Millis(1_800_000_000_000);

/// A provider with a key of each kind that ring can make.
struct Signer {
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, der.as_ref(), &random).unwrap()
}

impl Signer {
    fn new() -> Self {
        let ed = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self {
            p256: ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
            p384: ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING),
            ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap(),
        }
    }

    fn keys(&self) -> Value {
        let point = |key: &EcdsaKeyPair, half: usize| {
            let point = key.public_key().as_ref()[1..].to_vec();
            let length = point.len() / 2;
            URL_SAFE_NO_PAD.encode(&point[half * length..(half + 1) * length])
        };
        json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "p256", "use": "sig", "alg": "ES256", "x": point(&self.p256, 0), "y": point(&self.p256, 1)},
            {"kty": "EC", "crv": "P-384", "kid": "p384", "x": point(&self.p384, 0), "y": point(&self.p384, 1)},
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": URL_SAFE_NO_PAD.encode(self.ed.public_key().as_ref())},
            {"kty": "EC", "crv": "P-256", "kid": "enc", "use": "enc", "x": point(&self.p256, 0), "y": point(&self.p256, 1)},
            {"kty": "oct", "kid": "shared", "k": URL_SAFE_NO_PAD.encode("secret")},
            {"kty": "new"}, 7
        ]})
    }

    fn key_set(&self) -> KeySet {
        KeySet::parse(self.keys().to_string().as_bytes()).unwrap()
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let random = SystemRandom::new();
        let signature = match header["kid"].as_str() {
            Some("p384") => self.p384.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
            Some("ed") => self.ed.sign(message.as_bytes()).as_ref().to_vec(),
            _ => self.p256.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn settings() -> OidcSettings {
    OidcSettings {
        issuer: "https://id.example".to_owned(),
        client_id: "bucksaw".to_owned(),
        client_secret_file: None,
        ca_file: None,
        redirect_url: "https://logs.example/auth/callback".to_owned(),
        name_claim: "email".to_owned(),
        groups_claim: "groups".to_owned(),
        request_scopes: vec!["openid".to_owned()],
    }
}

fn claims() -> Value {
    json!({
        "iss": "https://id.example", "aud": "bucksaw", "sub": "7", "email": "ada@example.org", "groups": ["sre", 7, "dev"],
        "exp": 1_800_000_060, "iat": 1_799_999_990, "nonce": "n"
    })
}

/// The claims with one changed; removed for null.
fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

fn verify(signer: &Signer, token: &str, nonce: Option<&str>) -> Result<ExternalUser, TokenFault> {
    UnverifiedToken::parse(token)?.verify(&signer.key_set(), &settings(), nonce, NOW)
}

#[test]
fn a_token_of_each_kind_of_key_names_its_user_and_groups() {
    let signer = Signer::new();
    for (algorithm, key) in [("ES256", "p256"), ("ES384", "p384"), ("EdDSA", "ed")] {
        let token = signer.sign(&json!({"alg": algorithm, "kid": key}), &claims());
        let user = verify(&signer, &token, Some("n")).unwrap();
        assert_eq!(
            (user.name(), user.groups()),
            ("ada@example.org", &["sre".to_owned(), "dev".to_owned()][..]),
            "{algorithm}"
        );
        assert_eq!(user.expires(), Some(Millis(1_800_000_060_000)));
    }
    let without_key = signer.sign(&json!({"alg": "ES256"}), &claims());
    assert!(verify(&signer, &without_key, None).is_ok(), "all keys are tried");
}

#[test]
fn tokens_with_wrong_claims_are_refused() {
    let signer = Signer::new();
    let check = |claims: Value, want: Result<&str, TokenFault>| {
        let token = signer.sign(&json!({"alg": "ES256", "kid": "p256"}), &claims);
        let got = verify(&signer, &token, Some("n"));
        assert_eq!(got.as_ref().map(ExternalUser::name).map_err(|fault| *fault), want, "{claims}");
    };
    check(claims(), Ok("ada@example.org"));
    check(with("iss", json!("https://id.example/")), Err(TokenFault::Issuer));
    check(with("iss", Value::Null), Err(TokenFault::Issuer));
    check(with("aud", json!("other")), Err(TokenFault::Audience));
    check(with("aud", Value::Null), Err(TokenFault::Audience));
    check(with("aud", json!(["bucksaw"])), Ok("ada@example.org"));
    check(with("aud", json!(["bucksaw", "other"])), Err(TokenFault::Audience));
    check(with("azp", json!("other")), Err(TokenFault::Audience));
    let mut two = with("aud", json!(["other", "bucksaw"]));
    two["azp"] = json!("bucksaw");
    check(two, Ok("ada@example.org"));
    check(with("exp", json!(1_800_000_000)), Err(TokenFault::Expired));
    check(with("exp", json!(1_800_000_000.5)), Ok("ada@example.org"));
    check(with("exp", json!("1800000060")), Err(TokenFault::Malformed));
    check(with("exp", json!(-1)), Err(TokenFault::Malformed));
    check(with("exp", Value::Null), Err(TokenFault::Malformed));
    check(with("nbf", json!(1_800_000_061)), Err(TokenFault::NotYet));
    check(with("nbf", json!("x")), Err(TokenFault::Malformed));
    check(with("iat", json!(1_800_000_059)), Ok("ada@example.org"));
    check(with("iat", json!(1_800_000_061)), Err(TokenFault::NotYet));
    check(with("nonce", json!("m")), Err(TokenFault::Nonce));
    check(with("nonce", Value::Null), Err(TokenFault::Nonce));
    check(with("email", Value::Null), Ok("7"));
    check(with("email", json!("a\nb")), Err(TokenFault::NoUser));
    check(with("email", json!("x".repeat(257))), Err(TokenFault::NoUser));
    let mut unnamed = with("email", Value::Null);
    unnamed["sub"] = json!("");
    check(unnamed, Err(TokenFault::NoUser));
    check(with("groups", json!("sre")), Ok("ada@example.org"));
    check(with("groups", Value::Null), Ok("ada@example.org"));
}

#[test]
fn a_token_cannot_choose_how_it_is_checked() {
    let signer = Signer::new();
    let check = |header: Value, want: TokenFault| {
        let got = verify(&signer, &signer.sign(&header, &claims()), None).unwrap_err();
        assert_eq!(got, want, "{header}");
    };
    check(json!({"alg": "HS256", "kid": "shared"}), TokenFault::Algorithm);
    check(json!({"alg": "HS256", "kid": "p256"}), TokenFault::Algorithm);
    check(json!({"alg": "none"}), TokenFault::Malformed);
    check(json!({}), TokenFault::Malformed);
    check(json!({"alg": "ES256", "kid": "gone"}), TokenFault::UnknownKey);
    check(json!({"alg": "ES256", "kid": "enc"}), TokenFault::UnknownKey);
    check(json!({"alg": "ES384", "kid": "p256"}), TokenFault::UnknownKey);
    check(json!({"alg": "RS256", "kid": "p384"}), TokenFault::Signature);
    check(json!({"alg": "EdDSA", "kid": "p384"}), TokenFault::Signature);
    let other = Signer::new().sign(&json!({"alg": "ES256", "kid": "p256"}), &claims());
    assert_eq!(verify(&signer, &other, None).unwrap_err(), TokenFault::Signature);
    for text in ["", "a.b", "a.b.c.d", "ey.ey.", "....", "eyJhbGciOiJFUzI1NiJ9..", "\u{e4}.b.c"] {
        assert!(verify(&signer, text, None).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn a_changed_token_is_refused(at in any::<prop::sample::Index>(), with in "[A-Za-z0-9_.-]") {
        let signer = Signer::new();
        let token = signer.sign(&json!({"alg": "ES256", "kid": "p256"}), &claims());
        let mut changed: Vec<char> = token.chars().collect();
        let at = at.index(changed.len());
        changed[at] = with.chars().next().unwrap();
        let changed: String = changed.into_iter().collect();
        prop_assume!(changed != token);
        // The last character of the signature has bits that mean nothing; they must be zero.
        prop_assert!(verify(&signer, &changed, None).is_err());
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "\\PC{0,80}", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = verify(&Signer::new(), &text, None);
        crate::fuzz_input(&bytes);
        crate::fuzz_input(text.as_bytes());
    }
}
