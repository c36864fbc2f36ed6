//! The formats from outside: files of every version ever released are opened, and the document tells the truth.
#![expect(clippy::disallowed_methods, reason = "reads fixtures and documents of the project itself")]

mod document;
mod fixtures;
