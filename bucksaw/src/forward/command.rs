//! Runs a command and ships its standard output and standard error.

use std::io::{self, ErrorKind, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use bucksaw_env::Env;
use bucksaw_forward::{Config, StreamInput};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncRead;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::args::ForwardArgs;
use super::labels::{with_host, with_label};
use super::status_listener;
use crate::exit::Exit;
use crate::failure::print_error;

/// The attribute with the name of the output, by OpenTelemetry's conventions.
const STREAM_ATTRIBUTE: &str = "log.iostream";

/// The label with the name of the command, by OpenTelemetry's conventions.
const SERVICE_LABEL: &str = "service.name";

/// How long the pipes of a command that has ended are read after a signal. A process that it started may keep them open.
const PIPE_TIMEOUT: Duration = Duration::from_secs(5);

/// Exit codes of shells for a command that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Runs a command until it has ended and its lines are acknowledged.
pub(super) async fn run(args: &ForwardArgs, mut config: Config) -> anyhow::Result<Exit> {
    let Some((program, arguments)) = args.command.split_first() else { return Ok(Exit::Done) };
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    config.labels = with_label(with_host(config.labels), SERVICE_LABEL, &name);
    let to = config.addresses.join(", ");
    let (stop, stopping) = watch::channel(false);
    status_listener::start(&args.listen, &config.monitor, stopping.clone()).await?;
    // Caught before the start, so that no signal ends the agent and leaves the command.
    let mut signals = CommandSignals::catch()?;
    let started = Command::new(program).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            print_error(&format!("cannot run {}: {error}", program.display()));
            let is_missing = error.kind() == ErrorKind::NotFound;
            return Ok(Exit::Command(if is_missing { NOT_FOUND } else { NOT_EXECUTABLE }));
        }
    };
    let inputs = [output(child.stdout.take(), "stdout"), output(child.stderr.take(), "stderr")];
    let shipping = bucksaw_forward::run_streams(inputs.into_iter().flatten().collect(), config, Env::real(), stopping);
    let mut shipping = pin!(shipping);
    let (mut status, mut shipped) = (None, None);
    while status.is_none() || shipped.is_none() {
        tokio::select! {
            ended = child.wait(), if status.is_none() => status = Some(ended.context("cannot wait for the command")?),
            ended = &mut shipping, if shipped.is_none() => shipped = Some(ended),
            number = signals.next() => {
                if status.is_none() {
                    send_signal(&child, number);
                }
            }
            () = tokio::time::sleep(PIPE_TIMEOUT), if status.is_some() && signals.is_received => {
                stop.send_replace(true);
            }
        }
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

fn output<'a>(pipe: Option<impl AsyncRead + Unpin + Send + 'a>, stream: &'static str) -> Option<StreamInput<'a>> {
    Some(StreamInput { input: Box::new(pipe?), attributes: vec![(STREAM_ATTRIBUTE, stream)] })
}

/// The exit code that a shell reports.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn send_signal(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        // Fails if it has just ended.
        let _ = kill_process(pid, signal);
    }
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

    /// The next signal to pass on.
    async fn next(&mut self) -> Signal {
        loop {
            let number = tokio::select! {
                _ = self.interrupt.recv() => Signal::INT,
                _ = self.terminate.recv() => Signal::TERM,
            };
            self.is_received = true;
            // A terminal sends the signal of Ctrl-C to the command as well.
            if number != Signal::INT || !io::stdin().is_terminal() {
                return number;
            }
        }
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
