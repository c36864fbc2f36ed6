//! The loads with which agents are measured.

use clap::ValueEnum;

/// How lines reach an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LineDelivery {
    /// Writers append to files, and the agent follows them.
    Tail,
    /// Writers send to a port of the agent.
    Push,
}

impl LineDelivery {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tail => "tail",
            Self::Push => "push",
        }
    }
}

/// The load of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EdgeLoad {
    pub(super) delivery: LineDelivery,
    /// Processes that write, each with a file or a connection.
    pub(super) writers: u64,
    /// Lines per second of all writers together.
    pub(super) rate: u64,
    /// Bytes of a line, with its line end.
    pub(super) line_bytes: u64,
}

impl EdgeLoad {
    pub(super) fn name(&self) -> String {
        let Self { delivery, writers, rate, line_bytes } = self;
        format!("{} {rate}/s x{writers} {line_bytes}B", delivery.name())
    }

    /// The lines of one writer.
    pub(super) fn lines_per_writer(&self, seconds: u64) -> u64 {
        (self.rate * seconds / self.writers).max(1)
    }
}

/// The values of each dimension. The first of each is the base.
#[derive(Clone, Debug)]
pub(super) struct LoadAxes<'a> {
    pub(super) deliveries: &'a [LineDelivery],
    pub(super) writers: &'a [u64],
    pub(super) rates: &'a [u64],
    pub(super) line_bytes: &'a [u64],
}

impl LoadAxes<'_> {
    /// All combinations; unless `full`, only those that differ from the base in one dimension, for each delivery.
    pub(super) fn loads(&self, full: bool) -> Vec<EdgeLoad> {
        let is_base = |values: &[u64], value: &u64| values.first() == Some(value);
        let mut loads = Vec::new();
        for delivery in self.deliveries {
            for rate in self.rates {
                for writers in self.writers {
                    for line_bytes in self.line_bytes {
                        let same = [
                            is_base(self.rates, rate),
                            is_base(self.writers, writers),
                            is_base(self.line_bytes, line_bytes),
                        ];
                        if full || same.iter().filter(|is_base| !**is_base).count() <= 1 {
                            loads.push(EdgeLoad {
                                delivery: *delivery,
                                writers: *writers,
                                rate: *rate,
                                line_bytes: *line_bytes,
                            });
                        }
                    }
                }
            }
        }
        loads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dimension_varies_at_a_time() {
        let axes = LoadAxes {
            deliveries: &[LineDelivery::Tail, LineDelivery::Push],
            writers: &[2, 1, 10],
            rates: &[1_000, 500],
            line_bytes: &[100, 1_000],
        };
        let names: Vec<String> = axes.loads(false).iter().map(EdgeLoad::name).collect();
        assert_eq!(names.len(), 2 * (1 + 2 + 1 + 1));
        assert_eq!(names.iter().filter(|name| name.as_str() == "tail 1000/s x2 100B").count(), 1);
        assert!(!names.contains(&"tail 500/s x1 100B".to_owned()), "{names:?}");
        assert_eq!(axes.loads(true).len(), 2 * 3 * 2 * 2);
    }
}
