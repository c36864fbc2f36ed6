//! Derives the configuration of each crate from the arguments and the memory plan.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use bucksaw_cluster::Roles;
use bucksaw_env::Env;
use bucksaw_segment::Codec;

use super::data_dir::DataDir;
use super::descriptors::{self, DescriptorShares};
use super::disk::DiskSizes;
use super::memory::MemoryPlan;
use crate::args::{Role, ServeArgs, StoreCodec};

/// Full stored segments that fit at least into `--retention-bytes`,
const RETAINED_SEGMENTS_MIN: u64 = 8;

/// unless a segment would become smaller than this.
const RETAINED_SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// How long a down node stays listed while retention by age is off.
const REMEMBER_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Refuses invalid combinations of arguments.
pub(super) fn check(args: &ServeArgs) -> anyhow::Result<()> {
    if args.roles.is_empty() {
        bail!("--roles: a node has at least one: ingest, store or both");
    }
    if args.max_record_bytes.0 > bucksaw_sources::Config::RECORD_BYTES_LIMIT as u64 {
        bail!("--max-record-bytes: at most {} MB", bucksaw_sources::Config::RECORD_BYTES_LIMIT >> 20);
    }
    Ok(())
}

pub(super) fn roles(args: &ServeArgs) -> Roles {
    Roles { ingest: args.roles.contains(&Role::Ingest), store: args.roles.contains(&Role::Store) }
}

/// Settings of the node itself, without the addresses of its listeners.
pub(super) fn node(
    args: &ServeArgs,
    plan: &MemoryPlan,
    env: &Env,
    data_dir: &DataDir,
    descriptor_limit: usize,
) -> bucksaw_node::Config {
    let (path, sizes) = (&data_dir.path, DiskSizes::of(env, &data_dir.path));
    bucksaw_node::Config {
        queue: queue(args, plan, sizes, descriptor_limit),
        store: store(args, plan, sizes),
        query: query(args, plan),
        cluster: cluster(args, path),
        busy_bytes_per_second: args.busy_bytes_per_second.0,
        ..bucksaw_node::Config::new(data_dir.node, roles(args), path.to_owned())
    }
}

fn cluster(args: &ServeArgs, data_dir: &Path) -> bucksaw_cluster::Config {
    bucksaw_cluster::Config {
        join: args.join.iter().map(ToString::to_string).collect(),
        remember_for: args.retention_age.0.unwrap_or(REMEMBER_MAX),
        ..bucksaw_cluster::Config::new(data_dir.to_owned())
    }
}

fn queue(args: &ServeArgs, plan: &MemoryPlan, sizes: DiskSizes, descriptor_limit: usize) -> bucksaw_ingest::Config {
    bucksaw_ingest::Config {
        segment_bytes_max: args.segment_max_bytes.0.min(plan.queue_segment).min(sizes.queue_segment),
        unsynced_bytes_max: plan.unsynced,
        index_bytes_max: plan.queue_index,
        keys_max: plan.keys,
        key_sections_max: plan.sections,
        segment_age_max: args.segment_max_age,
        committed_segments_max: descriptors::committed_kept_max(descriptor_limit),
        free_bytes_min: free_bytes_min(args, sizes),
        ..bucksaw_ingest::Config::default()
    }
}

fn free_bytes_min(args: &ServeArgs, sizes: DiskSizes) -> u64 {
    args.min_free_bytes.map_or(sizes.reserve, |bytes| bytes.0)
}

fn store(args: &ServeArgs, plan: &MemoryPlan, sizes: DiskSizes) -> bucksaw_store::Config {
    let default = bucksaw_store::Config::default();
    let (codec_quick, codec_final) = match args.store_codec {
        StoreCodec::Columns => (default.codec_quick, Codec::Columns(args.store_level)),
        StoreCodec::Zstd => (Codec::Lz4, Codec::Zstd(args.store_level)),
        StoreCodec::Lz4 => (Codec::Lz4, Codec::Lz4),
        StoreCodec::None => (Codec::Plain, Codec::Plain),
    };
    bucksaw_store::Config {
        codec_quick,
        codec_final,
        segment_bytes: segment_bytes(args).min(sizes.store_segment),
        gather_bytes: plan.merge_input,
        merge_bytes_max: plan.merge_blocks,
        block_bytes: plan.block,
        index_bytes_max: plan.store_index,
        repair: bucksaw_store::repair::Config { range_bytes: plan.repair, ..default.repair },
        retention_age: args.retention_age.0,
        retention_labels: args.retention_label.iter().map(|rule| rule.0.clone()).collect(),
        retention_bytes: args.retention_bytes.0.map(|bytes| bytes.0),
        trash_age: args.trash_age,
        replication_factor: args.replication_factor as usize,
        free_bytes_min: free_bytes_min(args, sizes),
        ..default
    }
}

/// Text of a stored segment. Retention removes whole segments, so they must be small beside its limit of bytes.
fn segment_bytes(args: &ServeArgs) -> u64 {
    let limit = args.retention_bytes.0.map(|bytes| (bytes.0 / RETAINED_SEGMENTS_MIN).max(RETAINED_SEGMENT_BYTES_MIN));
    args.store_segment_bytes.0.min(limit.unwrap_or(u64::MAX))
}

fn query(args: &ServeArgs, plan: &MemoryPlan) -> bucksaw_query::Config {
    bucksaw_query::Config {
        result_bytes_max: args.query_memory_bytes.0.min(plan.unread_results),
        scan_bytes_max: plan.scans,
        served_max: plan.served,
        served_tails_max: plan.served_tails,
        query_timeout: args.query_timeout.0.filter(|time| !time.is_zero()),
        cache_bytes_max: args.query_cache_bytes.map_or(plan.block_cache, |bytes| bytes.0.min(plan.block_cache_max)),
        ..bucksaw_query::Config::default()
    }
}

pub(super) fn sources(
    args: &ServeArgs,
    plan: &MemoryPlan,
    shares: DescriptorShares,
    http_address: Option<String>,
) -> bucksaw_sources::Config {
    bucksaw_sources::Config {
        http_address,
        record_bytes_max: bytes(args.max_record_bytes.0),
        connections_max: plan.line_connections.min(shares.lines_per_listener),
        partial_bytes_max: bytes(plan.partial_lines),
        ..bucksaw_sources::Config::default()
    }
}

pub(super) fn api(args: &ServeArgs, plan: &MemoryPlan, shares: DescriptorShares) -> bucksaw_api::Config {
    let default = bucksaw_api::Config::default();
    let reserved = default.reserved_connections_max.min(shares.http / 4);
    let connections = plan.http_connections.min(shares.http - reserved);
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    bucksaw_api::Config {
        allowed_hosts: allowed_hosts(args),
        connections_max: connections,
        address_connections_max: default.address_connections_max.min(connections / 2),
        reserved_connections_max: reserved,
        record_bytes_max: bytes(args.max_record_bytes.0),
        bodies_bytes_max: bytes(args.max_bodies_bytes.0.min(plan.bodies)),
        // More are no faster, and the allocator keeps memory per thread.
        ingests_max: (4 * cores).min(plan.ingests),
        queries_max: plan.queries,
        answers_max: plan.answers,
        tails_max: plan.tails,
        compressed_max: plan.compressed,
        ..default
    }
}

/// Host names that HTTP clients may use: `--http-allowed-host`, and the host names of its own addresses.
fn allowed_hosts(args: &ServeArgs) -> Vec<String> {
    let otlp_http = args.listen_otlp_http.0.iter();
    let own = args.listen.0.iter().chain(otlp_http).chain(&args.advertise_cluster).map(|at| at.host.clone());
    own.chain(args.http_allowed_host.iter().map(|name| name.0.clone())).collect()
}

pub(super) fn bytes(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::values::ByteSize;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        args: ServeArgs,
    }

    #[test]
    fn the_block_cache_stays_within_its_part_of_the_memory_limit() {
        let (small, large) = (MemoryPlan::for_limit(128 << 20), MemoryPlan::for_limit(64 << 30));
        let check = |asked: Option<u64>, plan: &MemoryPlan, want: u64| {
            let mut args = Program::try_parse_from(["serve"]).unwrap().args;
            args.query_cache_bytes = asked.map(ByteSize);
            assert_eq!(query(&args, plan).cache_bytes_max, want, "{asked:?}");
        };
        check(None, &small, 2 << 20);
        check(Some(4 << 30), &small, 2 << 20);
        check(Some(1 << 20), &small, 1 << 20);
        check(Some(0), &small, 0);
        check(None, &large, 1 << 30);
        check(Some(4 << 30), &large, 4 << 30);
        check(Some(20 << 30), &large, 8 << 30);
    }

    fn parsed(flags: &[&str]) -> ServeArgs {
        Program::try_parse_from(["serve"].iter().chain(flags)).unwrap().args
    }

    #[test]
    fn no_flag_exceeds_its_part_of_the_memory_limit() {
        let flags = ["--query-memory-bytes", "9GB", "--max-bodies-bytes", "9GB", "--segment-max-bytes", "9GB"];
        let (asks, plan) = (parsed(&flags), MemoryPlan::for_limit(128 << 20));
        let large = DiskSizes { reserve: 0, queue_segment: u64::MAX, store_segment: u64::MAX };
        assert_eq!(query(&asks, &plan).result_bytes_max, plan.unread_results);
        assert_eq!(api(&asks, &plan, descriptors(4_096)).bodies_bytes_max as u64, plan.bodies);
        assert_eq!(queue(&asks, &plan, large, 1_024).segment_bytes_max, plan.queue_segment);
    }

    #[test]
    fn blocks_have_the_codec_and_the_level() {
        let plan = MemoryPlan::for_limit(128 << 20);
        let sizes = || DiskSizes { reserve: 0, queue_segment: u64::MAX, store_segment: u64::MAX };
        let codec = |flags: &[&str]| store(&parsed(flags), &plan, sizes()).codec_final;
        assert_eq!(codec(&[]), bucksaw_store::Config::default().codec_final);
        assert_eq!(codec(&["--store-level", "12"]), Codec::Columns(12));
        assert_eq!(codec(&["--store-level=1", "--store-codec", "zstd"]), Codec::Zstd(1));
        assert_eq!(codec(&["--store-level=1", "--store-codec", "lz4"]), Codec::Lz4);
    }

    #[test]
    fn segments_are_limited_by_the_size_of_the_disk() {
        let (asks, plan) =
            (parsed(&["--segment-max-bytes", "1GB", "--store-segment-bytes", "1GB"]), MemoryPlan::for_limit(64 << 30));
        let small = DiskSizes { reserve: 7, queue_segment: 8, store_segment: 9 };
        let (queue, store) = (queue(&asks, &plan, small, 1_024), store(&asks, &plan, small));
        assert_eq!((queue.segment_bytes_max, store.segment_bytes), (8, 9));
        assert_eq!((queue.free_bytes_min, store.free_bytes_min), (7, 7));
    }

    #[test]
    fn connections_are_limited_by_descriptors() {
        let (args, plan) = (parsed(&[]), MemoryPlan::for_limit(64 << 30));
        let shares = descriptors(256);
        assert_eq!(sources(&args, &plan, shares, None).connections_max, shares.lines_per_listener);
        let api = api(&args, &plan, shares);
        assert_eq!(api.connections_max + api.reserved_connections_max, shares.http);
        assert!(api.reserved_connections_max > 0 && api.address_connections_max <= api.connections_max / 2, "{api:?}");
    }

    #[test]
    fn a_query_timeout_of_zero_or_none_is_no_limit() {
        let limit = |flags: &[&str]| query(&parsed(flags), &MemoryPlan::for_limit(64 << 30)).query_timeout;
        assert_eq!(limit(&[]), Some(Duration::from_secs(60)));
        assert_eq!(limit(&["--query-timeout", "5s"]), Some(Duration::from_secs(5)));
        assert_eq!((limit(&["--query-timeout", "none"]), limit(&["--query-timeout", "0s"])), (None, None));
    }

    fn descriptors(limit: usize) -> DescriptorShares {
        crate::serve::descriptors::shares(limit, 0)
    }
}
