//! `edge`: what it costs a machine to collect the lines that its applications write.
//!
//! Writers append lines in the form of Docker's `json-file`, one write per line, or push them to a port of the agent. The
//! CPU is that of the agent alone, in all its threads; that of the node is a figure of its own. Other agents run with the
//! same writers.

mod agents;
mod args;
mod live;
mod load;
mod measure;
mod plot;
mod writer;

use anyhow::Context as _;

use crate::context::BenchContext;
use crate::machine;
use crate::results::BenchRun;
pub(crate) use args::EdgeArgs;
use args::EdgeSubject;
use live::LiveMetrics;
use measure::EdgeSetting;

pub(crate) fn run(args: &EdgeArgs, context: &BenchContext) -> anyhow::Result<()> {
    let live = LiveMetrics::start(args.live.as_deref())?;
    let mut results = context.results("edge")?;
    let mut measured = Vec::new();
    let mut programs = Vec::new();
    for agent in &args.agents {
        match agent.program(&args.programs, context) {
            Some(program) => programs.push((*agent, program)),
            None => eprintln!("{}: skipped, its program is missing", agent.name()),
        }
    }
    for round in 1..=args.rounds {
        for subject in args.subjects() {
            for (agent, program) in programs.iter().filter(|(agent, _)| subject.applies_to(*agent)) {
                let (name, load) = (format!("{} {}", agent.name(), subject.name()), machine::load());
                let setting = EdgeSetting::new(context, args, *agent, program, &live, &format!("{name}-{round}"))?;
                let figures = match subject {
                    EdgeSubject::Load(load) => setting.load(&load),
                    EdgeSubject::Idle => setting.idle(),
                    EdgeSubject::Backlog => setting.backlog(),
                };
                let figures = figures.with_context(|| name.clone())?;
                setting.end()?;
                let shown = figures.iter().find(|figure| figure.name == measure::CPU_PER_LINE);
                eprintln!(
                    "round {round}: {name} {}",
                    shown.map_or_else(String::new, |figure| format!("{:.2} us/line", figure.value))
                );
                if let EdgeSubject::Load(load) = subject {
                    measured.push((*agent, load));
                }
                results.runs.push(BenchRun { subject: name, round, load, figures });
            }
        }
    }
    if let Some(dir) = &args.plots {
        measured.dedup();
        plot::draw_all(dir, &measured, &|name| results.median(name, measure::CPU_PER_LINE))?;
    }
    context.report_in_rows(&results)
}
