//! Every call of the HTTP interface, as its clients make it.

mod ask;
mod follow;
mod ingest;
mod operate;
mod retry;
mod wrong;
