//! Random writes, rotations, kills and restarts. Each line is stored once.
//!
//! `BUCKSAW_TAILING_ROUNDS` sets the number of rounds, `BUCKSAW_TAILING_SEED` repeats those of an earlier run.

use std::env;
use std::thread;
use std::time::{Duration, SystemTime};

use bucksaw_faults::Random;

use super::TailedDir;
use super::log_writer::LogFileWriter;

/// Default rounds.
const ROUNDS: u64 = 4;

const STEPS: usize = 60;

#[test]
fn random_rotations_and_kills_lose_and_double_nothing() {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64 % 1_000_000_000;
    let rounds = number("BUCKSAW_TAILING_ROUNDS").unwrap_or(ROUNDS);
    let first = number("BUCKSAW_TAILING_SEED").unwrap_or_else(now);
    for seed in first..first + rounds {
        eprintln!("BUCKSAW_TAILING_SEED={seed}");
        round(seed);
    }
}

fn round(seed: u64) {
    let mut random = Random::new(seed);
    let mut tailed = TailedDir::new(&[]);
    // With the pattern for all, rotated files match too.
    let pattern = if random.below(2) == 0 { "*.log" } else { "*.log*" };
    let mut writers = ["a.log", "b.log", "c.log"].map(|name| RotatedLog { log: tailed.writer(name), rotations: 0 });
    // A file that was rotated before its path was ever read is not looked for.
    writers.iter_mut().for_each(|writer| writer.log.write_lines(1));
    tailed.start_agent(pattern);
    tailed.wait_count(writers.len());
    let mut is_node_up = true;
    for _ in 0..STEPS {
        let writer = &mut writers[random.below(3)];
        match random.below(100) {
            0..40 => writer.log.write_lines(random.below(300)),
            40..46 => {
                writer.log.write(b"begun");
                thread::sleep(Duration::from_millis(random.below(60) as u64));
                writer.log.end_line();
            }
            46..56 => writer.rename(&mut random),
            56..62 => {
                writer.rotations += 1;
                writer.log.copy_and_truncate(&format!("{}.{}", writer.name(), writer.rotations));
            }
            62..74 => match tailed.agent.is_some() {
                true => tailed.kill_agent(),
                false => tailed.start_agent(pattern),
            },
            74..78 if tailed.agent.is_some() => drop(tailed.stop_agent()),
            78..84 if is_node_up => {
                tailed.node.kill();
                is_node_up = false;
            }
            84..90 if !is_node_up => {
                tailed.node.restart();
                is_node_up = true;
            }
            _ => thread::sleep(Duration::from_millis(random.below(120) as u64)),
        }
    }
    if !is_node_up {
        tailed.node.restart();
    }
    if tailed.agent.is_none() {
        tailed.start_agent(pattern);
    }
    tailed.expect(&writers.iter().map(|writer| &writer.log).collect::<Vec<_>>());
    let said = tailed.stop_agent();
    assert!(!said.contains("may be missing"), "{said}");
}

/// A writer whose file is rotated.
struct RotatedLog {
    log: LogFileWriter,
    rotations: usize,
}

impl RotatedLog {
    fn name(&self) -> String {
        self.log.name()
    }

    /// Renames the file, goes on writing to it for a while, and begins a new one; sometimes compresses the old one.
    fn rename(&mut self, random: &mut Random) {
        self.rotations += 1;
        let rotated = format!("{}.{}", self.name(), self.rotations);
        self.log.rename_away(&rotated);
        self.log.write_lines(random.below(30));
        self.log.reopen();
        self.log.write_lines(1 + random.below(30));
        if random.below(3) == 0 {
            self.log.compress(&rotated);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().filter(|text| !text.is_empty()).map(|text| text.parse().unwrap())
}
