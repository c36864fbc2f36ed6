//! Arguments of `serve`.

use std::path::PathBuf;
use std::time::Duration;

use bucksaw_clickhouse::DatabaseUrl;
use bucksaw_ingest::Durability;
use bucksaw_record::time::parse_duration;
use clap::{Args, ValueEnum};

use super::{KafkaArgs, ListenerTlsArgs};
use crate::encryption::EncryptionArgs;
use crate::values::{
    ByteSize, DisplayZone, HostName, HostPort, ListenAddress, ListenerTimes, LogFilter, OptionalLimit, RetentionRule,
    StoreLocation, durability, replication_factor, store_level, switch,
};

/// Run a node
///
/// A node accepts records on its listeners, queues them, moves them to its store and answers queries. It works alone;
/// with --join it becomes a member of a cluster. An empty address turns a listener off, port 0 picks a free port. The addresses
/// in use are logged at start and written to DATA-DIR/addresses.json. Sizes are bytes, or numbers with K, M, G or T for
/// powers of 1024.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// Roles of the node
    ///
    /// `ingest` accepts records, `store` keeps them; every node answers queries.
    #[arg(long, value_name = "ROLE", value_delimiter = ',', default_value = "ingest,store")]
    pub(crate) roles: Vec<Role>,

    /// Directory for all data of the node; created if missing
    #[arg(long, value_name = "DIR", default_value = "./bucksaw-data")]
    pub(crate) data_dir: PathBuf,

    /// Address of the HTTP API and the page
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7650")]
    pub(crate) listen: ListenAddress,

    /// Host name by which HTTP clients may address the node; repeatable
    ///
    /// Addresses, localhost, and the host names of --listen, --advertise-cluster and the certificate are always allowed. Requests with
    /// another name are refused, because a web page could use it to reach the node (DNS rebinding). `*` allows every
    /// name, for a node behind a proxy that checks it.
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

    /// Address for syslog over TCP and UDP, such as 127.0.0.1:514; off by default
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub(crate) listen_syslog: ListenAddress,

    /// Path of a Unix datagram socket for syslog, such as /dev/log; off by default
    ///
    /// A socket without a listener at this path is replaced; any other file is not.
    #[arg(long, value_name = "PATH")]
    pub(crate) listen_syslog_socket: Option<PathBuf>,

    /// Address for GELF over TCP and UDP, such as 127.0.0.1:12201; off by default
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub(crate) listen_gelf: ListenAddress,

    /// Address for Fluentd's forward protocol, such as 127.0.0.1:24224; off by default
    ///
    /// TCP, and UDP for heartbeats.
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub(crate) listen_fluent: ListenAddress,

    /// File with the key that senders of --listen-fluent must know
    #[arg(long, value_name = "FILE")]
    pub(crate) fluent_shared_key_file: Option<PathBuf>,

    /// When records of the listeners for syslog, GELF and Fluentd count as accepted
    ///
    /// `fast`: written, `durable`: synced to disk, `bulk`: replicated. Only Fluentd's protocol acknowledges records.
    #[arg(long, value_name = "DURABILITY", default_value = "fast")]
    #[arg(value_parser = durability(&["fast", "durable", "bulk"]))]
    pub(crate) sender_durability: Durability,

    /// Address for gRPC, usually port 4317: logs of OpenTelemetry, and the service bucksaw.v1; off by default
    ///
    /// See docs/grpc.md for the service: ingest, query, count and tail.
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub(crate) listen_otlp: ListenAddress,

    /// Address for logs of OpenTelemetry over HTTP, usually port 4318; off by default
    ///
    /// The address of --listen takes them, too.
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    pub(crate) listen_otlp_http: ListenAddress,

    #[command(flatten)]
    pub(crate) tls: ListenerTlsArgs,

    /// Address for the other nodes of the cluster
    ///
    /// Defaults to 127.0.0.1:7659. If that address is in use, a node without --join runs alone.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen_cluster: Option<ListenAddress>,

    /// Address at which other nodes reach this one, if it differs from --listen-cluster
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) advertise_cluster: Option<HostPort>,

    /// File with the secret that all nodes of the cluster share
    ///
    /// With a secret, all traffic between nodes is encrypted, and connections without it are refused. Without one,
    /// anything that reaches the cluster address counts as a node. The file may have a second line with another secret that is
    /// accepted, too. It is read again when it changes. See docs/operating.md.
    #[arg(long, value_name = "FILE")]
    pub(crate) cluster_secret_file: Option<PathBuf>,

    /// File that says which clients may do what; without it every client may do everything
    ///
    /// With it, every request needs a credential, also on loopback: a token, a client certificate, or a user of a proxy. The file is
    /// read again when it changes; 'bucksaw token' edits it. See docs/security.md.
    #[arg(long, value_name = "FILE")]
    pub(crate) auth_file: Option<PathBuf>,

    /// Start although other machines can reach a listener that does not authenticate clients, or does not encrypt
    ///
    /// A listener authenticates with --auth-file or --tls-client-ca and encrypts with --tls-cert; --listen-cluster does both with a
    /// secret. Without this flag a node with another one beyond loopback does not start.
    #[arg(long)]
    pub(crate) insecure_listen: bool,

    /// Cluster address of a node to join; repeatable
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) join: Vec<HostPort>,

    /// Number of stores that keep each record
    ///
    /// While fewer stores are alive, records stay in the queue of the node that accepted them, and are found there.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = replication_factor)]
    pub(crate) replication_factor: u32,

    /// Bytes per second below which a node never counts as busy
    ///
    /// A node that accepts at least this rate, and half as much again as the average of all nodes, suggests others to
    /// its clients; at twice the average it refuses new clients. See docs/operating.md.
    #[arg(long, value_name = "SIZE", default_value = "16MB")]
    pub(crate) busy_bytes_per_second: ByteSize,

    /// Where records are stored: `segments` in the data directory, or a table of ClickHouse
    ///
    /// clickhouse://USER@HOST:PORT/DATABASE?table=NAME; all but host and database may be left out. Records stay in the queue
    /// until ClickHouse has them. All nodes of a cluster use the same store. See docs/clickhouse.md.
    #[arg(long, value_name = "STORE", default_value = "segments")]
    pub(crate) store: StoreLocation,

    /// Table of ClickHouse that gets all records besides the segments; off by default
    ///
    /// A URL as for --store, for nodes with the role store. Records wait on disk while ClickHouse is away. The table keeps
    /// them without limit, unless the URL has the option retention. See docs/clickhouse.md.
    #[arg(long, value_name = "URL")]
    pub(crate) clickhouse_sink: Option<DatabaseUrl>,

    /// File with the password of the ClickHouse user
    ///
    /// Without it the password is that in the variable BUCKSAW_DATABASE_PASSWORD, if set.
    #[arg(long, value_name = "FILE")]
    pub(crate) database_password_file: Option<PathBuf>,

    /// File with the CA that signed the certificate of ClickHouse, for clickhouses://; defaults to the CAs that this system trusts
    #[arg(long, value_name = "FILE")]
    pub(crate) database_ca: Option<PathBuf>,

    /// Age at which records are deleted, such as 12h, 7d or 8w; or none
    #[arg(long, value_name = "AGE", default_value = "7d", value_parser = OptionalLimit::<Duration>::parse)]
    pub(crate) retention_age: OptionalLimit<Duration>,

    /// Age at which records of streams with these labels are deleted instead; repeatable
    ///
    /// As tenant=a:3d, or tenant=a:none for no limit by age. The first one that fits a stream is used. Give the same to all
    /// nodes of a cluster. See docs/operating.md.
    #[arg(long, value_name = "LABELS:AGE")]
    pub(crate) retention_label: Vec<RetentionRule>,

    /// Size of the store above which the oldest records are deleted, such as 500GB; or none
    #[arg(long, value_name = "SIZE", default_value = "none", value_parser = OptionalLimit::<ByteSize>::parse)]
    pub(crate) retention_bytes: OptionalLimit<ByteSize>,

    /// Size at which a queue segment is closed; smaller on a disk below 1.3 GB
    ///
    /// Limited to a 16th of the memory limit.
    #[arg(long, value_name = "SIZE", default_value = "16MB")]
    pub(crate) segment_max_bytes: ByteSize,

    /// Age at which a queue segment is closed
    #[arg(long, value_name = "AGE", default_value = "3s", value_parser = parse_duration)]
    pub(crate) segment_max_age: Duration,

    /// Size up to which stored segments are merged; smaller on a disk below 4 GB
    #[arg(long, value_name = "SIZE", default_value = "128MB")]
    pub(crate) store_segment_bytes: ByteSize,

    /// Time that removed segments stay in the trash, from which they can be restored by hand
    ///
    /// While less than twice `--min-free-bytes` is free, the oldest segments in the trash are deleted earlier.
    #[arg(long, value_name = "AGE", default_value = "1h", value_parser = parse_duration)]
    pub(crate) trash_age: Duration,

    /// Free disk space below which nothing is accepted
    ///
    /// The store needs it to write queued records in smaller form. Defaults to a 20th of the disk, at least 8MB and at
    /// most 256MB.
    #[arg(long, value_name = "SIZE")]
    pub(crate) min_free_bytes: Option<ByteSize>,

    /// Compression of stored blocks
    ///
    /// `columns` are searched without decompression, with zstd where lines have nothing in common; `zstd`, `lz4` and `none`
    /// are decompressed for each search. With the first two, small segments and bursts are compressed by LZ4 first and
    /// again in the background. Existing blocks keep their compression until they are merged.
    #[arg(long, value_name = "CODEC", default_value = "columns")]
    pub(crate) store_codec: StoreCodec,

    /// Level of zstd of stored blocks, from 1 to 15
    ///
    /// With a higher one, the store takes less disk space, and encoding, half of the work of ingest, more CPU: 7 saves 3 %
    /// for 17 %, 12 saves 7 % for twice the CPU. Searches cost the same. Text in which hardly anything recurs stays at level 3
    /// or below. `lz4` and `none` have no levels.
    #[arg(long, value_name = "LEVEL", default_value_t = 3, value_parser = store_level)]
    pub(crate) store_level: i8,

    /// Memory limit of the node
    ///
    /// All memory budgets are parts of it, and no other flag exceeds its part. Defaults to the least of what the
    /// control groups (of a container or service), the address space and the machine allow, which is also its maximum.
    /// At least 128MB; below 8GB some things are slower. See docs/operating.md.
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory_limit: Option<ByteSize>,

    /// Memory for results of all queries that their readers have not read yet
    ///
    /// Limited to a 32nd of the memory limit. A query may hold as much as it leaves free for others. With less, queries
    /// proceed in smaller steps and may search some parts twice.
    #[arg(long, value_name = "SIZE", default_value = "128MB")]
    pub(crate) query_memory_bytes: ByteSize,

    /// Memory for the block cache, which makes repeated searches of a time range faster
    ///
    /// 0 turns it off. Defaults to an eighth of the memory limit and at most 1GB, with less than 8GB a 12th, with less
    /// than 1GB a 64th; these parts are also its maximum.
    #[arg(long, value_name = "SIZE")]
    pub(crate) query_cache_bytes: Option<ByteSize>,

    /// Time limit of a query; 0 or none for no limit
    ///
    /// At the limit the answer ends with what was found, and is partial. Waiting for the client to read does not count.
    /// `tail` has no limit.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = OptionalLimit::<Duration>::parse)]
    pub(crate) query_timeout: OptionalLimit<Duration>,

    /// Record who asked and changed what, as records with the label _bucksaw=audit
    ///
    /// Every query, count, tail, change of the node and refusal is a record. Defaults to on with --auth-file, else off. See
    /// docs/audit.md.
    #[arg(long, value_name = "TRUE|FALSE", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = switch)]
    pub(crate) audit: Option<bool>,

    /// Level of the log on standard error: error, warn, info, debug, trace or off
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: LogFilter,

    /// Length at which a line is cut into several records
    ///
    /// At most 16MB and a 128th of the memory limit; a node with less memory does not start.
    #[arg(long, value_name = "SIZE", default_value = "1MB")]
    pub(crate) max_record_bytes: ByteSize,

    /// Time of the records of the line ports: that of their arrival, or the one near the start of the line
    ///
    /// `line` is for all of them, `fast=line` for one; several with commas. A line without a time has that of the line before it on its connection, or of its arrival if there is none. See
    /// docs/times.md for the forms.
    #[arg(long, value_name = "[LISTENER=]FROM", value_parser = ListenerTimes::parse, default_value = "arrival")]
    pub(crate) time_from: ListenerTimes,

    /// Zone of times that name none, in lines and in syslog: an IANA name, UTC, an offset, or local
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) time_zone: DisplayZone,

    /// Memory for all HTTP bodies being ingested
    ///
    /// While it is used up, bodies are not read, slow ones are evicted, and after 10s a client gets 503. Raised to one
    /// and a quarter times what one body may need, some 20MB. Limited to a sixth of the memory limit, from 8GB on to a
    /// quarter.
    #[arg(long, value_name = "SIZE", default_value = "64MB")]
    pub(crate) max_bodies_bytes: ByteSize,

    #[command(flatten)]
    pub(crate) encryption: EncryptionArgs,

    #[command(flatten)]
    pub(crate) kafka: KafkaArgs,
}

impl ServeArgs {
    /// Whether the node has an audit trail.
    pub(crate) fn is_audited(&self) -> bool {
        self.audit.unwrap_or(self.auth_file.is_some())
    }
}

/// Compression of stored blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreCodec {
    /// As columns that are searched without decompression; zstd where lines have nothing in common.
    Columns,
    /// By zstd.
    Zstd,
    /// By LZ4: faster to decompress, and larger.
    Lz4,
    /// Uncompressed.
    None,
}

/// A role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Accepts and queues records.
    Ingest,
    /// Fetches queued segments and keeps their records.
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
