//! Types of flags, parsed from the command line. Errors say what was expected.

mod byte_size;
mod color_choice;
mod display_zone;
mod duration;
mod host_name;
mod host_port;
mod limit;
mod listener_times;
mod log_filter;
mod node_url;
mod number;
mod switch;
mod template;
mod time_from;

pub(crate) use byte_size::ByteSize;
pub(crate) use color_choice::ColorChoice;
pub(crate) use display_zone::{DisplayZone, checked_time};
pub(crate) use duration::time_limit;
pub(crate) use host_name::HostName;
pub(crate) use host_port::{HostPort, ListenAddress};
pub(crate) use limit::OptionalLimit;
pub(crate) use listener_times::ListenerTimes;
pub(crate) use log_filter::LogFilter;
pub(crate) use node_url::NodeUrl;
pub(crate) use number::{bucket_count, context_count, count, line_count, replication_factor};
pub(crate) use switch::switch;
pub(crate) use template::{OutputPart, OutputTemplate};
pub(crate) use time_from::TimeFrom;
