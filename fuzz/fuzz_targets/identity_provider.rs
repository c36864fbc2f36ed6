//! What an identity provider and its users send: discovery documents, key sets, ID tokens and their claims are read or refused.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bucksaw_oidc::fuzz_input(data));
