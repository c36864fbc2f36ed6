//! What a node can be told.

use std::path::PathBuf;
use std::time::Duration;

use bucksaw_record::time::parse_duration;
use clap::{Args, ValueEnum};

use crate::values::{ByteSize, HostName, HostPort, ListenAddress, OptionalLimit};

/// Run a node
///
/// Takes records on its listeners, queues them, keeps them on its store and answers queries. A node alone is a whole
/// Bucksaw; with --join it becomes one of a cluster. An empty string as address turns a listener off, port 0 picks a free
/// port. The addresses in use are logged at start and written to DATA-DIR/addresses.json. Sizes are bytes, or numbers
/// with K, M, G or T for powers of 1024.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// What this node does
    ///
    /// `ingest` takes records in, `store` keeps them; every node answers queries.
    #[arg(long, value_name = "ROLE", value_delimiter = ',', default_value = "ingest,store")]
    pub(crate) roles: Vec<Role>,

    /// Directory of everything that the node keeps; made when missing
    #[arg(long, value_name = "DIR", default_value = "./bucksaw-data")]
    pub(crate) data_dir: PathBuf,

    /// Address of the HTTP API and the page
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7650")]
    pub(crate) listen: ListenAddress,

    /// Host name by which HTTP clients may call the node; repeatable
    ///
    /// Addresses, localhost, and the host names of --listen and --advertise-cluster are always allowed. A request with
    /// another name is refused, because a web page could reach the node by it (DNS rebinding). `*` allows every name: for
    /// a node behind a proxy that checks it.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) http_allowed_host: Vec<HostName>,

    /// Address for lines that are accepted once they are written
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7651")]
    pub(crate) listen_fast: ListenAddress,

    /// Address for lines that are accepted once they are synced to disk
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7652")]
    pub(crate) listen_durable: ListenAddress,

    /// Address for whole segments that are accepted once they are replicated
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7653")]
    pub(crate) listen_bulk: ListenAddress,

    /// Address for the other nodes of the cluster
    ///
    /// Left out, it is 127.0.0.1:7659; when that is taken, a node that joins nobody goes on alone.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen_cluster: Option<ListenAddress>,

    /// Where other nodes reach this one, when that is not where it listens
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) advertise_cluster: Option<HostPort>,

    /// File with the secret that all nodes of the cluster share
    ///
    /// With it all that nodes say to each other is encrypted, and nobody else is listened to. Without it everybody who
    /// reaches the cluster's address is taken for a node.
    #[arg(long, value_name = "FILE")]
    pub(crate) cluster_secret_file: Option<PathBuf>,

    /// Cluster address of a node to join; repeatable
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) join: Vec<HostPort>,

    /// On how many store nodes each record is kept
    ///
    /// While fewer are there, records stay where they were taken in, and are found there.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) replication_factor: u32,

    /// Bytes a second below which a node never counts as busy
    ///
    /// A node that takes in half as much again as all do on average, and at least this, suggests others to its clients; one
    /// that takes in twice as much refuses new ones. See docs/operating.md.
    #[arg(long, value_name = "SIZE", default_value = "16MB")]
    pub(crate) busy_bytes_per_second: ByteSize,

    /// Age at which records are deleted, such as 12h, 7d or 8w; or none
    #[arg(long, value_name = "AGE", default_value = "7d", value_parser = OptionalLimit::<Duration>::parse)]
    pub(crate) retention_age: OptionalLimit<Duration>,

    /// Size of the store above which the oldest records are deleted, such as 500GB; or none
    #[arg(long, value_name = "SIZE", default_value = "none", value_parser = OptionalLimit::<ByteSize>::parse)]
    pub(crate) retention_bytes: OptionalLimit<ByteSize>,

    /// Size at which a segment of the queue is closed; less on a disk below 1.3 GB
    ///
    /// At most a 16th of the memory limit counts.
    #[arg(long, value_name = "SIZE", default_value = "16MB")]
    pub(crate) segment_max_bytes: ByteSize,

    /// Age at which a segment of the queue is closed
    #[arg(long, value_name = "AGE", default_value = "3s", value_parser = parse_duration)]
    pub(crate) segment_max_age: Duration,

    /// Size that segments of the store are gathered up to; less on a disk below 4 GB
    #[arg(long, value_name = "SIZE", default_value = "128MB")]
    pub(crate) store_segment_bytes: ByteSize,

    /// How long what retention removed can still be taken out of the store's trash by hand
    ///
    /// While the disk has less room than twice `--min-free-bytes`, the oldest in the trash are removed earlier.
    #[arg(long, value_name = "AGE", default_value = "1h", value_parser = parse_duration)]
    pub(crate) trash_age: Duration,

    /// Room on the disk below which nothing more is accepted
    ///
    /// The store needs it to write smaller copies of what is queued. Left out, it is a twentieth of the disk, at least 8MB
    /// and at most 256MB.
    #[arg(long, value_name = "SIZE")]
    pub(crate) min_free_bytes: Option<ByteSize>,

    /// How the text of stored blocks is packed
    ///
    /// `columns` are searched as they are, and give way to zstd where lines have nothing in common; `zstd`, `lz4` and
    /// `none` are unpacked for each search. With the first two, small pieces and bursts are packed quickly by LZ4 first,
    /// and anew in the background. Blocks that are there stay as they are until they are merged.
    #[arg(long, value_name = "CODEC", default_value = "columns")]
    pub(crate) store_codec: StoreCodec,

    /// Memory that the node may use
    ///
    /// All its budgets follow from it, and no other flag raises one beyond its part. Left out, it is the least of what the
    /// control groups (of a container or service), the address space and the machine allow. At least 128MB, and no more
    /// than these allow; with less than 8GB some things are slower. See docs/operating.md.
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory_limit: Option<ByteSize>,

    /// Memory for what queries have found and their readers have not yet read, all together
    ///
    /// At most a 32nd of the memory limit counts. A query may hold as much of it as it leaves to the others. With less, queries go on in smaller steps and may
    /// search some parts twice.
    #[arg(long, value_name = "SIZE", default_value = "128MB")]
    pub(crate) query_memory_bytes: ByteSize,

    /// Memory for what was unpacked of stored blocks, so that the same hours are searched faster again
    ///
    /// With 0 nothing is kept. At most an eighth of the memory limit counts, a 64th of one below 1GB. Left out,
    /// it is that, at most 1GB.
    #[arg(long, value_name = "SIZE")]
    pub(crate) query_cache_bytes: Option<ByteSize>,

    /// How long a query may take; 0 or none for as long as it needs
    ///
    /// Then its answer ends with what was found, and says that it is partial. The time in which the node waits for the
    /// client to read does not count. `tail` is not limited.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = OptionalLimit::<Duration>::parse)]
    pub(crate) query_timeout: OptionalLimit<Duration>,

    /// What the node tells on standard error: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: String,

    /// Length at which a line is cut into several records
    ///
    /// At most 16MB, and a 128th of the memory limit: a node with less memory does not start.
    #[arg(long, value_name = "SIZE", default_value = "1MB")]
    pub(crate) max_record_bytes: ByteSize,

    /// Memory for all HTTP bodies that are being taken in
    ///
    /// When it is used up, bodies are not read until there is room, those that come slowly give way, and after 10s their
    /// clients get 503. At least one and a quarter times what one body may need counts: some 20MB. At most a sixth of the
    /// memory limit counts, and from 8GB on a quarter.
    #[arg(long, value_name = "SIZE", default_value = "64MB")]
    pub(crate) max_bodies_bytes: ByteSize,
}

/// How the text of stored blocks is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreCodec {
    /// As columns that are searched as they are; by zstd where lines have nothing in common.
    Columns,
    /// By zstd, to be unpacked for each search.
    Zstd,
    /// By LZ4: unpacked faster, and larger.
    Lz4,
    /// Not at all.
    None,
}

/// One of the two tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Takes records in and queues them.
    Ingest,
    /// Pulls queued segments and keeps their records.
    Store,
}

impl Role {
    /// The name on the command line and in `status`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Store => "store",
        }
    }
}
