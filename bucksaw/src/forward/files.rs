//! Follows files, and serves local listeners, until the stop.

use bucksaw_env::Env;
use bucksaw_forward::{Config, EventRules, FilesConfig, OtherInputs, WhenFull};
use bucksaw_kubernetes::watch_pods;
use bucksaw_sources::{ListenerTls, WaitingSenders};
use bucksaw_tailer::{PathPattern, ReadFrom, TailerConfig};
use tracing::info;

use super::args::{FileStart, ForwardArgs, FullPolicy};
use super::labels::with_host;
use super::listeners::{LocalIntake, LocalListeners};
use super::stop_signal::StopSignal;
use super::{rate_line, status_listener};
use crate::exit::Exit;
use crate::failure::UsageError;

/// The smallest buffer: a few of the longest batches.
const BUFFER_BYTES_MIN: u64 = 4 << 20;

/// Follows the files of the arguments, and serves their listeners, whose senders that wait for acknowledgements are counted.
pub(super) async fn run(
    args: &ForwardArgs,
    mut config: Config,
    tls: Option<ListenerTls>,
    waiting_senders: WaitingSenders,
) -> anyhow::Result<Exit> {
    config.labels = with_host(config.labels);
    config.lines.node_name = Some(args.kubernetes.node());
    let mut files = files_config(args, &config)?;
    let watched = args.kubernetes.config()?;
    let (signal, env) = (StopSignal::catch()?, Env::real());
    status_listener::start((&args.listen, args.insecure_listen), tls.clone(), &config.monitor, signal.receiver())
        .await?;
    let _lock = bucksaw_forward::lock_state(&env, &files.state_dir)?;
    if let Some((kubernetes, pods)) = watched {
        tokio::spawn(watch_pods(kubernetes, pods.pods.clone(), env.clone(), signal.receiver()));
        files.pods = Some(pods);
    }
    let rules = EventRules::new(&config.lines, &config.labels, config.record_bytes_max);
    let queue = match args.listeners.is_any() {
        true => {
            let intake = LocalIntake {
                env: env.clone(),
                durability: args.durability,
                zone: args.time_zone.zone().clone(),
                bytes_max: files.buffer_bytes_max,
                when_full: files.when_full,
                rules: rules.clone(),
                tls,
                waiting_senders,
            };
            let listeners = LocalListeners::bind(args).await?;
            Some(listeners.serve(&files.state_dir, intake, &signal.receiver())?)
        }
        false => None,
    };
    let others = OtherInputs { queue, journal: args.journal(), rules };
    let monitor = config.monitor.clone();
    let following = bucksaw_forward::run_files(config, files, others, env, signal.receiver());
    let (shipped, backlog) = rate_line::show_during(following, &monitor).await?;
    info!(
        records = shipped.records,
        waiting_batches = backlog.batches,
        waiting_segments = backlog.queue_segments,
        dropped_records = backlog.dropped_records,
        damaged_batches = backlog.damaged_batches,
        gaps = backlog.gaps,
        undecoded_lines = shipped.lines.undecoded,
        filtered = shipped.lines.dropped,
        sampled_out = shipped.lines.sampled_out,
        redacted = shipped.lines.redacted,
        "stopped; what waits is sent at the next start"
    );
    Ok(Exit::Interrupted)
}

fn files_config(args: &ForwardArgs, config: &Config) -> anyhow::Result<FilesConfig> {
    if args.buffer_bytes.0 < BUFFER_BYTES_MIN {
        return Err(
            UsageError("--buffer-bytes must be at least 4M: room for a few of the longest batches".to_owned()).into()
        );
    }
    let tailer = TailerConfig {
        patterns: patterns("PATH", &args.paths, &current_dir())?,
        excluded: excluded(&args.exclude)?,
        read_from: match args.read_from {
            FileStart::Start => ReadFrom::Start,
            FileStart::End => ReadFrom::End,
        },
        // Room for a line of a record's length in the format of a container, where each character may take two, and runtimes write
        // it in parts of 16 KiB.
        pending_bytes_max: 2 * config.record_bytes_max + (64 << 10),
        flush_after: config.lines.wait(),
        ..TailerConfig::default()
    };
    let when_full = match args.when_full {
        FullPolicy::Block => WhenFull::Block,
        FullPolicy::DropOldest => WhenFull::DropOldest,
    };
    let files = FilesConfig::new(tailer, args.state_dir.clone());
    Ok(FilesConfig { buffer_bytes_max: args.buffer_bytes.0, when_full, ..files })
}

/// Parses patterns of files. Errors name the argument and the text as it was given.
fn patterns(argument: &str, texts: &[String], base: &str) -> anyhow::Result<Vec<PathPattern>> {
    let parse = |text: &String| {
        PathPattern::parse(&absolute(text, base))
            .map_err(|error| UsageError(format!("{argument} '{text}': {error}")).into())
    };
    texts.iter().map(parse).collect()
}

/// A pattern without a slash applies in every directory.
fn excluded(texts: &[String]) -> anyhow::Result<Vec<PathPattern>> {
    let (names, paths): (Vec<_>, Vec<_>) = texts.iter().cloned().partition(|text| !text.contains('/'));
    Ok([patterns("--exclude", &names, "")?, patterns("--exclude", &paths, &current_dir())?].concat())
}

/// The current directory, if it can be the start of a pattern.
fn current_dir() -> String {
    let dir = std::env::current_dir().ok().and_then(|dir| dir.into_os_string().into_string().ok());
    dir.filter(|dir| !dir.contains(['*', '?', '[', ']', '{', '}', '\\'])).unwrap_or_default()
}

/// A pattern with the directory in front, so that the label with the path names one file of the machine.
fn absolute(text: &str, base: &str) -> String {
    let is_whole = text.is_empty() || text.starts_with('/') || base.is_empty();
    if is_whole { text.to_owned() } else { format!("{base}/{}", text.trim_start_matches("./")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_patterns_become_absolute() {
        let check = |text: &str, base: &str, want: &str| assert_eq!(absolute(text, base), want);
        check("a.log", "/var/log", "/var/log/a.log");
        check("./*/a.log", "/var/log", "/var/log/*/a.log");
        check("../a.log", "/var/log", "/var/log/../a.log");
        check("/a.log", "/var/log", "/a.log");
        check("a.log", "", "a.log");
        check("", "/var/log", "");
    }

    #[test]
    fn wrong_patterns_are_named() {
        let check = |text: &str, want: &str| {
            let error = excluded(&[text.to_owned()]).unwrap_err();
            assert_eq!((error.to_string().as_str(), error.is::<UsageError>()), (want, true));
        };
        check("[", "--exclude '[': a bracket is not closed; write \\[ for a name that has one");
        check("a/{b", "--exclude 'a/{b': a brace is not closed; write \\{ for a name that has one");
        check("[z-a]", "--exclude '[z-a]': a range in brackets ends before it begins: z-a");
        check("", "--exclude '': the pattern is empty");
    }
}
