//! `bucksaw-sim`: runs seeds, and says which of them fail.

#![expect(clippy::print_stdout, reason = "this is what it is for")]
#![expect(clippy::disallowed_methods, reason = "says how much faster than the world's time it was")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bucksaw_sim::{Scenario, run};
use clap::Parser;

/// Whole clusters under virtual time, with faults.
#[derive(Parser)]
struct Args {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Says what each seed was like.
    #[arg(long)]
    verbose: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let (started, mut time, mut failed) = (Instant::now(), Duration::ZERO, 0);
    for seed in args.from..args.from + args.seeds {
        let scenario = Scenario::drawn(seed);
        let begun = Instant::now();
        let outcome = run(seed, &scenario);
        time += outcome.time;
        if args.verbose {
            println!(
                "seed {seed}: {} nodes, {} copies, {:.0?} in {:.0?}, {} of {} records acknowledged",
                scenario.roles.len(),
                scenario.copies,
                outcome.time,
                begun.elapsed(),
                outcome.acknowledged,
                outcome.sent,
            );
        }
        for violation in outcome.violations.iter().take(10) {
            println!("seed {seed}: {violation}");
        }
        failed += usize::from(!outcome.violations.is_empty());
    }
    let took = started.elapsed();
    println!(
        "{} seeds, {failed} failed; {:.0?} of their time in {:.1?}: {:.0} times as fast",
        args.seeds,
        time,
        took,
        time.as_secs_f64() / took.as_secs_f64().max(1e-9),
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
