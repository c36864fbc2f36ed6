//! `bucksaw forward`: ships standard input, the output of a command, or files, the journal and what
//! local listeners take, to a node.

mod args;
mod command;
mod counted_input;
mod files;
mod journal_args;
mod kubernetes_args;
mod labels;
mod line_args;
mod listen_args;
mod listeners;
mod no_store;
mod output_pipe;
mod paced_runtime;
mod prompt_runtime;
mod rate_line;
mod status_listener;
mod stop_signal;
mod stream;

use std::sync::Arc;

use anyhow::Context as _;
use bucksaw_env::{Env, Reloads, real};
use bucksaw_sources::WaitingSenders;
use bucksaw_tls::ClientCertificates;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;

pub(crate) use args::ForwardArgs;

use crate::exit::Exit;
use crate::failure::UsageError;

/// Connections of applications in their TLS handshake at the same time.
const HANDSHAKES_MAX: usize = 64;

/// Freed memory that an agent keeps for its next turn, in bytes.
const KEPT_BYTES: usize = 4 << 20;

pub(crate) fn run(args: &ForwardArgs) -> anyhow::Result<Exit> {
    keep_freed_memory();
    let config = args.config()?;
    crate::log::start("info")?;
    args.listeners.check(&args.listen)?;
    let has_kept_inputs = !args.paths.is_empty() || args.listeners.is_any() || args.journal().is_some();
    if has_kept_inputs && !args.command.is_empty() {
        let problem =
            "a command is shipped alone, without files, listeners and the journal: start another agent for these";
        return Err(UsageError(problem.to_owned()).into());
    }
    if args.paths.is_empty() && args.lines.is_for_files() {
        return Err(UsageError("--multiline and --format are for files: name a path".to_owned()).into());
    }
    if args.paths.is_empty() && args.kubernetes.is_on() {
        return Err(UsageError(
            "--kubernetes is for files of pods: name a path, such as '/var/log/pods/*/*/*.log'".to_owned(),
        )
        .into());
    }
    let waiting_senders = WaitingSenders::default();
    let runtime = match args.listeners.is_any() {
        true => paced_runtime::start(&waiting_senders),
        false => tokio::runtime::Builder::new_current_thread().enable_all().build(),
    };
    let runtime = runtime.context("cannot start the network")?;
    // These metrics are not scraped: the log names the same errors.
    let metrics = bucksaw_tls::Metrics::new(&mut Registry::default());
    let tls = args.listener_tls.load(&Env::real(), ClientCertificates::Required, metrics, HANDSHAKES_MAX)?;
    let result = runtime.block_on(async {
        if let Some(tls) = &tls {
            let tasks = Arc::new(real::Tasks::new(Handle::current()));
            tokio::spawn(Arc::clone(&tls.server).watch(tasks, Reloads::default()));
        }
        if !args.command.is_empty() {
            command::run(args, config, tls).await
        } else if has_kept_inputs {
            files::run(args, config, tls, waiting_senders).await
        } else {
            stream::run(args, config, tls).await
        }
    });
    // A read from a terminal may never return, and must not delay the exit.
    runtime.shutdown_background();
    result
}

/// Makes the allocator of glibc keep up to [`KEPT_BYTES`] of freed memory, which each turn of an agent would get from the
/// system again. It keeps twice the size of the largest block that was mapped and freed; see `M_MMAP_THRESHOLD` in mallopt(3).
fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(KEPT_BYTES / 2)));
}
