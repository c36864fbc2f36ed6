//! Bucksaw.
fn main() {}
