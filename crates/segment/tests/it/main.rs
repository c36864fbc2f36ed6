//! The formats from outside: files of every version ever released are opened, and the document tells the truth.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "reads fixtures and documents of the project itself; a test fails by a panic"
)]

mod document;
mod encryption;
mod fixtures;
