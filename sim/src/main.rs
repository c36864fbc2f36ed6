//! `bucksaw-sim`: runs seeds and reports those that fail.

#![expect(clippy::print_stdout, reason = "prints results")]
#![expect(clippy::disallowed_methods, reason = "measures real time")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bucksaw_sim::{InjectedBug, QueueingLoad, QueueingReport, RunOutcome, Scenario, Violation, run};
use clap::Parser;
use mimalloc::MiMalloc;

/// The allocator of the system takes a tenth of the time: a run makes many small, short-lived allocations.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Maximum violations shown per seed.
const VIOLATIONS_SHOWN_MAX: usize = 10;

/// Simulates clusters with faults under virtual time.
#[derive(Parser)]
struct Args {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The number of seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Prints the scenario and result of each seed.
    #[arg(long)]
    verbose: bool,
    /// Prints the logs of all nodes with simulated time, filtered as by RUST_LOG.
    #[arg(long, num_args = 0..=1, default_missing_value = "info,bucksaw_store=debug,bucksaw_ingest=debug")]
    trace: Option<String>,
    /// Five nodes without faults, to measure the speed.
    #[arg(long)]
    healthy: bool,
    /// A single, frequent fault: kill or power.
    #[arg(long)]
    only: Option<String>,
    /// Injects a bug by its name; `all` for each bug until a seed finds it.
    #[arg(long)]
    inject: Option<String>,
    /// Measures queues of clusters with calibrated times, and compares them with the formulas of docs/model.md.
    #[arg(long)]
    queueing: bool,
    /// With --queueing: only clusters of this number of nodes.
    #[arg(long, requires = "queueing", value_parser = clap::value_parser!(u32).range(2..=1_000))]
    nodes: Option<u32>,
    /// With --queueing: only this share of the time in which a store gathers.
    #[arg(long, requires = "queueing", value_parser = utilisation)]
    utilisation: Option<f64>,
    /// With --queueing: only the formulas.
    #[arg(long, requires = "queueing")]
    predict: bool,
}

/// Simulated time of a measurement of queues, or that of this number of segments, if it is longer.
const QUEUEING_WINDOW: Duration = Duration::from_secs(120);
const QUEUEING_SEGMENTS: u32 = 6_000;

/// A utilisation at which a queue has an end.
fn utilisation(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number > 0.0 && number < 0.95 { Ok(number) } else { Err("not between 0 and 0.95".to_owned()) }
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(filter) = &args.trace
        && let Err(error) = bucksaw_sim::log_to_stderr(filter)
    {
        println!("{error}");
        return ExitCode::FAILURE;
    }
    if args.queueing {
        compare_queues(&args);
        return ExitCode::SUCCESS;
    }
    match args.inject.as_deref() {
        Some("all") => run_all_bugs(&args),
        Some(name) => match InjectedBug::ALL.iter().find(|bug| bug.name() == name) {
            Some(bug) => run_seeds(&args, Some(*bug)),
            None => {
                let names: Vec<&str> = InjectedBug::ALL.iter().map(|bug| bug.name()).collect();
                println!("unknown name {name}; known: {}", names.join(", "));
                ExitCode::FAILURE
            }
        },
        None => run_seeds(&args, None),
    }
}

/// Prints the predictions for queues, and the measurements.
fn compare_queues(args: &Args) {
    println!("{}", QueueingReport::HEADER);
    for load in QueueingLoad::all(args.nodes, args.utilisation) {
        let predicted = QueueingReport::predict(load);
        let report =
            if args.predict { predicted } else { predicted.measure(args.from, QUEUEING_WINDOW, QUEUEING_SEGMENTS) };
        println!("{report}");
    }
}

fn run_seeds(args: &Args, bug: Option<InjectedBug>) -> ExitCode {
    let (started, mut time, mut failed) = (Instant::now(), Duration::ZERO, Vec::new());
    let mut sums = SeedTotals::default();
    for seed in args.from..args.from + args.seeds {
        let scenario = if args.healthy { Scenario::healthy() } else { Scenario::random(seed) };
        let scenario = match args.only.as_deref().map(|name| scenario.clone().with_single_fault(name)) {
            None => scenario,
            Some(Ok(only)) => only,
            Some(Err(error)) => {
                println!("{error}");
                return ExitCode::FAILURE;
            }
        };
        let seed_started = Instant::now();
        let outcome = run(seed, &scenario, bug);
        time += outcome.time;
        sums.add(&outcome);
        if args.verbose {
            print_outcome(seed, &scenario, &outcome, seed_started.elapsed());
        }
        for violation in outcome.violations.iter().take(VIOLATIONS_SHOWN_MAX) {
            println!("seed {seed}: {violation}");
        }
        if !outcome.violations.is_empty() {
            failed.push(seed);
            let inject = bug.map(|bug| format!(" --inject {bug}")).unwrap_or_default();
            let only = args.only.as_ref().map(|name| format!(" --only {name}")).unwrap_or_default();
            println!("reproduce: cargo run --release -p bucksaw-sim -- --from {seed} --seeds 1 --trace{inject}{only}");
        }
    }
    let elapsed = started.elapsed();
    println!(
        "{} seeds, {} failed; {:.0?} of simulated time in {:.1?}: {:.0} times as fast",
        args.seeds,
        failed.len(),
        time,
        elapsed,
        time.as_secs_f64() / elapsed.as_secs_f64().max(1e-9),
    );
    let SeedTotals { acknowledged, lost, duplicated, power_cuts, damaged_files, answers, complete } = sums;
    println!(
        "{acknowledged} records acknowledged, {lost} lost, {duplicated} duplicated; {power_cuts} power cuts, {damaged_files} damaged \
         queue segments and member files; {answers} answers, {complete} complete",
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The totals of all seeds.
#[derive(Default)]
struct SeedTotals {
    acknowledged: usize,
    lost: usize,
    duplicated: usize,
    power_cuts: u64,
    damaged_files: usize,
    answers: usize,
    complete: usize,
}

impl SeedTotals {
    fn add(&mut self, outcome: &RunOutcome) {
        let count =
            |which: fn(&Violation) -> bool| outcome.violations.iter().filter(|violation| which(violation)).count();
        self.acknowledged += outcome.acknowledged;
        self.lost += count(|violation| matches!(violation, Violation::Lost(_) | Violation::Miscounted { .. }));
        self.duplicated += count(|violation| matches!(violation, Violation::Duplicated(_)));
        self.power_cuts += outcome.power_cuts;
        self.damaged_files += outcome.damaged_files;
        self.answers += outcome.answers;
        self.complete += outcome.complete;
    }
}

fn print_outcome(seed: u64, scenario: &Scenario, outcome: &RunOutcome, elapsed: Duration) {
    println!(
        "seed {seed}: {} nodes, {} replicas, {:.0?} in {elapsed:.0?}, {} of {} records acknowledged, {} answers, {} complete, {:016x}",
        scenario.roles.len(),
        scenario.copies,
        outcome.time,
        outcome.acknowledged,
        outcome.sent,
        outcome.answers,
        outcome.complete,
        outcome.fingerprint,
    );
}

fn run_all_bugs(args: &Args) -> ExitCode {
    let mut all = true;
    for bug in InjectedBug::ALL {
        let mut seeds = args.from..args.from + args.seeds;
        let seed_started = Instant::now();
        let found = seeds.find_map(|seed| {
            let outcome = run(seed, &Scenario::random(seed), Some(*bug));
            outcome.violations.first().map(|violation| (seed, violation.clone()))
        });
        all &= found.is_some();
        match found {
            Some((seed, violation)) => println!("{bug}: seed {seed} in {:.1?}: {violation}", seed_started.elapsed()),
            None => println!("{bug}: NOT FOUND in {:.1?}", seed_started.elapsed()),
        }
    }
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
