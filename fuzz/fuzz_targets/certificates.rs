//! Files of certificates and keys, and the names in a certificate: read or refused. Names are one line without control characters.
#![no_main]
use bucksaw_tls::{PeerIdentity, first_certificate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    bucksaw_tls::fuzz_input(data);
    let in_file = first_certificate(data);
    for der in [Some(data), in_file.as_deref()].into_iter().flatten() {
        if let Some(identity) = PeerIdentity::of_certificate(der) {
            assert!(!identity.subject.contains(char::is_control));
        }
    }
});
