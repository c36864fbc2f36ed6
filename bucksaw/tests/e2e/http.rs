//! Every call of the HTTP interface.

mod compression;
mod errors;
mod follow;
mod hints;
mod ingest;
mod operate;
mod page;
mod queries;
mod retry;
mod streams;
mod web;
