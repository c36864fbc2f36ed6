//! Every call of the HTTP interface, as its clients make it.

mod ask;
mod follow;
mod ingest;
mod operate;
mod page;
mod retry;
mod web;
mod wrong;
