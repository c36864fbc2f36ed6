//! TLS of listeners and clients, with certificates of `bucksaw certs`.

mod authority;
mod client_certificates;
mod connection;
mod failures;
mod floods;
mod listeners;
mod rotation;
