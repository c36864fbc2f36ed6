//! Types of flags, parsed from the command line. Errors say what was expected.

mod byte_size;
mod host_name;
mod host_port;
mod limit;
mod node_url;

pub(crate) use byte_size::ByteSize;
pub(crate) use host_name::HostName;
pub(crate) use host_port::{HostPort, ListenAddress};
pub(crate) use limit::OptionalLimit;
pub(crate) use node_url::NodeUrl;
