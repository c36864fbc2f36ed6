//! Watches a run: signals, the rate log, progress, and the summary at its end.

use std::io::{IsTerminal as _, Write as _};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bucksaw_env::Env;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::args::GenerateArgs;
use super::load_totals::LoadCounters;
use super::rate_log::RateLog;
use super::run_summary::{progress, summary};
use crate::exit::Exit;
use crate::progress::Progress;

/// The interval of the rate log and of the rate that is shown.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long the acknowledgement of what was sent may take after an interrupt.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Watches one run.
pub(super) struct Supervisor {
    env: Env,
    counters: LoadCounters,
    stop: watch::Sender<bool>,
    interrupts: Signal,
    terminations: Signal,
    rate_log: Option<RateLog>,
    started: Duration,
    /// Whether a line of progress would be mixed with the lines.
    prints_lines: bool,
}

impl Supervisor {
    /// Catches the signals from now on, which is the start of the run.
    pub(super) fn new(args: &GenerateArgs, counters: LoadCounters, stop: watch::Sender<bool>) -> anyhow::Result<Self> {
        let catch = |kind| signal(kind).context("cannot catch signals");
        let env = Env::real();
        Ok(Self {
            counters,
            stop,
            interrupts: catch(SignalKind::interrupt())?,
            terminations: catch(SignalKind::terminate())?,
            rate_log: args.rate_log.as_deref().map(RateLog::create).transpose()?,
            started: env.clock.uptime(),
            prints_lines: args.to.is_none() && std::io::stdout().is_terminal(),
            env,
        })
    }

    /// Does the work until it has ended. `is_acked` is whether records are acknowledged: at an interrupt they are waited for.
    pub(super) async fn run(
        mut self,
        work: impl Future<Output = anyhow::Result<()>>,
        is_acked: bool,
    ) -> anyhow::Result<Exit> {
        let mut shown = if self.prints_lines { Progress::none() } else { Progress::new("generating") };
        let mut work = pin!(work);
        let mut ticks = interval_at(Instant::now() + INTERVAL, INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut before, mut before_at) = (self.counters.totals(), self.uptime());
        let mut give_up_at: Option<Instant> = None;
        let result = loop {
            tokio::select! {
                result = &mut work => break result,
                _ = self.interrupts.recv() => {}
                _ = self.terminations.recv() => {}
                () = wait_until(give_up_at) => {
                    break Err(anyhow!("not everything was acknowledged within {} s", STOP_TIMEOUT.as_secs()));
                }
                _ = ticks.tick() => {
                    let (totals, at) = (self.counters.totals(), self.uptime());
                    if let Err(error) = self.write_rate() {
                        break Err(error);
                    }
                    shown.show(&progress(before, totals, at.saturating_sub(before_at), is_acked));
                    (before, before_at) = (totals, at);
                    continue;
                }
            }
            // A signal. The second one ends the wait for acknowledgements.
            if self.stop.send_replace(true) || !is_acked {
                break Ok(());
            }
            give_up_at = Some(Instant::now() + STOP_TIMEOUT);
        };
        shown.clear();
        let is_interrupted = *self.stop.borrow();
        let result = result.and(self.write_rate());
        if is_acked || is_interrupted {
            // A closed standard error leaves no place to report it.
            let _ = writeln!(
                std::io::stderr(),
                "{}",
                summary(self.counters.totals(), self.uptime().saturating_sub(self.started), is_acked)
            );
        }
        result.map(|()| if is_interrupted { Exit::Interrupted } else { Exit::Done })
    }

    fn write_rate(&mut self) -> anyhow::Result<()> {
        let at = self.uptime().saturating_sub(self.started);
        match &mut self.rate_log {
            Some(log) => log.write(self.env.clock.unix_ms(), at, self.counters.totals()),
            None => Ok(()),
        }
    }

    fn uptime(&self) -> Duration {
        self.env.clock.uptime()
    }
}

async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
