//! Signatures of JWTs, checked by ring, which is the cryptography of TLS in this program.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature::{self as rings, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use signature::Verifier;

/// Makes `jsonwebtoken` use ring. It may be called any number of times.
pub(crate) fn install() {
    static PROVIDER: CryptoProvider = CryptoProvider {
        // Nothing is signed, and no key is made from another form.
        signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
        verifier_factory: |algorithm, key| RingVerifier::boxed(*algorithm, key),
        key_utils: KeyUtils::new_unimplemented(),
    };
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // It fails only if another one is installed, which no other crate of this program does.
        let _ = PROVIDER.install_default();
    });
}

/// How ring checks an algorithm.
#[derive(Clone, Copy)]
enum Check {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

struct RingVerifier {
    algorithm: Algorithm,
    check: Check,
    key: DecodingKey,
}

impl RingVerifier {
    fn boxed(algorithm: Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
        let (family, check) = match algorithm {
            Algorithm::RS256 => (AlgorithmFamily::Rsa, Check::Rsa(&rings::RSA_PKCS1_2048_8192_SHA256)),
            Algorithm::RS384 => (AlgorithmFamily::Rsa, Check::Rsa(&rings::RSA_PKCS1_2048_8192_SHA384)),
            Algorithm::RS512 => (AlgorithmFamily::Rsa, Check::Rsa(&rings::RSA_PKCS1_2048_8192_SHA512)),
            Algorithm::PS256 => (AlgorithmFamily::Rsa, Check::Rsa(&rings::RSA_PSS_2048_8192_SHA256)),
            Algorithm::PS384 => (AlgorithmFamily::Rsa, Check::Rsa(&rings::RSA_PSS_2048_8192_SHA384)),
            Algorithm::PS512 => (AlgorithmFamily::Rsa, Check::Rsa(&rings::RSA_PSS_2048_8192_SHA512)),
            Algorithm::ES256 => (AlgorithmFamily::Ec, Check::Other(&rings::ECDSA_P256_SHA256_FIXED)),
            Algorithm::ES384 => (AlgorithmFamily::Ec, Check::Other(&rings::ECDSA_P384_SHA384_FIXED)),
            Algorithm::EdDSA => (AlgorithmFamily::Ed, Check::Other(&rings::ED25519)),
            _ => return Err(ErrorKind::InvalidAlgorithm.into()),
        };
        if key.family() != family {
            return Err(ErrorKind::InvalidKeyFormat.into());
        }
        Ok(Box::new(Self { algorithm, check, key: key.clone() }))
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let checked = match (self.check, self.key.kind()) {
            (Check::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Check::Other(algorithm), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(algorithm, key).verify(message, signature)
            }
            _ => return Err(signature::Error::new()),
        };
        checked.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
