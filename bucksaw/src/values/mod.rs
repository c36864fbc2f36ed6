//! Types of flags, parsed from the command line. Errors say what was expected.

mod byte_size;
mod display_zone;
mod host_name;
mod host_port;
mod limit;
mod listener_times;
mod log_filter;
mod node_url;
mod number;
mod retention_rule;
mod sending;
mod store_location;
mod switch;
mod template;

pub(crate) use byte_size::ByteSize;
pub(crate) use display_zone::{DisplayZone, checked_time};
pub(crate) use host_name::{HostName, machine_name};
pub(crate) use host_port::{HostPort, ListenAddress};
pub(crate) use limit::{OptionalLimit, time_limit};
pub(crate) use listener_times::ListenerTimes;
pub(crate) use log_filter::LogFilter;
pub(crate) use node_url::NodeUrl;
pub(crate) use number::{
    bucket_count, context_count, count, failed_node_count, line_count, node_count, page_count, replication_factor,
    store_level, worker_count,
};
pub(crate) use retention_rule::RetentionRule;
pub(crate) use sending::{TimeFrom, all_labels, durability};
pub(crate) use store_location::StoreLocation;
pub(crate) use switch::switch;
pub(crate) use template::{OutputPart, OutputTemplate};
