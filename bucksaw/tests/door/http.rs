//! Every call of the HTTP interface, as its clients make it.

mod queries;
mod follow;
mod ingest;
mod operate;
mod page;
mod retry;
mod web;
mod errors;
