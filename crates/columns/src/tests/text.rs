//! Generated text for tests.

/// Pseudo-random numbers below a bound, the same in each run.
pub(crate) fn random() -> impl FnMut(u64) -> u64 {
    let mut state = 1_u64;
    move |below| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) % below
    }
}

/// At least `bytes` bytes of whole lines.
pub(crate) fn lines_of(bytes: usize, mut line: impl FnMut() -> String) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < bytes {
        text.extend_from_slice(line().as_bytes());
    }
    text
}
