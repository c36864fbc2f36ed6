//! Runs a command and ships its standard output and standard error.

use std::io::{self, ErrorKind, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use bucksaw_env::{Env, wait_for_stop};
use bucksaw_forward::{Config, StreamInput};
use bucksaw_sources::ListenerTls;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::AsyncRead;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::args::ForwardArgs;
use super::labels::{with_host, with_label};
use super::output_pipe::OutputPipe;
use super::status_listener;
use crate::exit::Exit;
use crate::failure::{UsageError, print_error};

/// The attribute with the name of the output, by OpenTelemetry's conventions.
const STREAM_ATTRIBUTE: &str = "log.iostream";

/// The label with the name of the command, by OpenTelemetry's conventions.
const SERVICE_LABEL: &str = "service.name";

/// How long the pipes of a command that has ended are read: a process that it started may keep them open.
const PIPE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a command may go on after the signal to stop, before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Exit codes of shells for a command that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Runs a command until it has ended and its lines are acknowledged.
pub(super) async fn run(args: &ForwardArgs, mut config: Config, tls: Option<ListenerTls>) -> anyhow::Result<Exit> {
    let Some((program, arguments)) = args.command.split_first() else { return Ok(Exit::Done) };
    if program.is_empty() {
        return Err(UsageError("the command after -- is empty: name a program".to_owned()).into());
    }
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    config.labels = with_label(with_host(config.labels), SERVICE_LABEL, &name);
    let to = config.addresses.join(", ");
    let (stop, stopping) = watch::channel(false);
    status_listener::start((&args.listen, args.insecure_listen), tls, &config.monitor, stopping.clone()).await?;
    // Caught before the start, so that no signal ends the agent and leaves the command.
    let mut signals = CommandSignals::catch()?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Only the foreground group of a terminal can read from it.
    let has_group = !io::stdin().is_terminal();
    if has_group {
        command.process_group(0);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            print_error(&format!("cannot run {}: {error}", program.display()));
            let is_missing = error.kind() == ErrorKind::NotFound;
            return Ok(Exit::Command(if is_missing { NOT_FOUND } else { NOT_EXECUTABLE }));
        }
    };
    let ((end, has_ended), is_left) = (watch::channel(false), Arc::<AtomicBool>::default());
    let inputs = [
        child
            .stdout
            .take()
            .map(|pipe| input(OutputPipe::new(pipe, &has_ended, after_end(&has_ended), &is_left), "stdout")),
        child
            .stderr
            .take()
            .map(|pipe| input(OutputPipe::new(pipe, &has_ended, after_end(&has_ended), &is_left), "stderr")),
    ];
    let shipping = bucksaw_forward::run_streams(inputs.into_iter().flatten().collect(), config, Env::real(), stopping);
    let mut shipping = pin!(shipping);
    let (mut status, mut shipped) = (None, None);
    // When a command that does not stop is killed, and when nothing more is read after its end.
    let (mut kill_at, mut stop_at) = (None, None);
    while status.is_none() || shipped.is_none() {
        tokio::select! {
            ended = child.wait(), if status.is_none() => {
                status = Some(ended.context("cannot wait for the command")?);
                end.send_replace(true);
                stop_at = Some(Instant::now() + PIPE_TIMEOUT);
            }
            ended = &mut shipping, if shipped.is_none() => shipped = Some(ended),
            request = signals.next() => match kill_at {
                _ if status.is_some() => {}
                None => {
                    // A terminal sends the signal of Ctrl-C to the command as well.
                    if request != Signal::INT || has_group {
                        send_signal(&child, has_group, request);
                    }
                    kill_at = Some(Instant::now() + STOP_TIMEOUT);
                }
                Some(_) => kill(&child, has_group, "at the second signal"),
            },
            () = wait_until(kill_at), if status.is_none() => {
                kill(&child, has_group, &format!("{} s after the signal to stop", STOP_TIMEOUT.as_secs()));
                kill_at = Some(Instant::now() + STOP_TIMEOUT);
            }
            () = wait_until(stop_at), if status.is_some() && signals.is_received => {
                stop.send_replace(true);
                stop_at = None;
            }
        }
    }
    if is_left.load(Ordering::Relaxed) {
        print_error(
            "processes that the command started keep its output open: what they write from now on is not shipped",
        );
    }
    let exit = Exit::Command(status.map_or(1, exit_code));
    match shipped {
        Some(Err(error)) => {
            print_error(&format!("not everything was shipped to {to}: {error}"));
            Ok(if exit == Exit::Command(0) { Exit::Failed } else { exit })
        }
        _ => Ok(exit),
    }
}

fn input<'a>(output: impl AsyncRead + Unpin + Send + 'a, stream: &'static str) -> StreamInput<'a> {
    StreamInput { input: Box::new(output), attributes: vec![(STREAM_ATTRIBUTE, stream)] }
}

/// Resolves when the pipes of a command that has ended are not read any longer.
fn after_end(has_ended: &watch::Receiver<bool>) -> impl Future<Output = ()> + Send + 'static {
    let mut has_ended = has_ended.clone();
    async move {
        wait_for_stop(&mut has_ended).await;
        tokio::time::sleep(PIPE_TIMEOUT).await;
    }
}

/// Waits until this time; for ever if there is none.
async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// The exit code that a shell reports.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Sends a signal to the command, and to its process group if it has one of its own.
fn send_signal(child: &Child, has_group: bool, signal: Signal) {
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        // Fails if it has just ended.
        let _ = if has_group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    }
}

fn kill(child: &Child, has_group: bool, when: &str) {
    print_error(&format!("the command has not ended: killed {when}"));
    send_signal(child, has_group, Signal::KILL);
}

/// The signals that are passed on to the command.
struct CommandSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    is_received: bool,
}

impl CommandSignals {
    fn catch() -> anyhow::Result<Self> {
        let catch = |kind| signal(kind).context("cannot catch signals");
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            is_received: false,
        })
    }

    /// The next signal.
    async fn next(&mut self) -> Signal {
        let signal = tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
        };
        self.is_received = true;
        signal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let check = |raw: i32, want: u8| assert_eq!(exit_code(ExitStatus::from_raw(raw)), want);
        check(0, 0);
        check(7 << 8, 7);
        check(255 << 8, 255);
        check(15, 143);
        check(9, 137);
    }
}
