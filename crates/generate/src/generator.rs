//! The generator.

use crate::fill::TemplateFiller;
use crate::kinds::LineKinds;
use crate::{Config, SampleFormat, fit};

/// Generates lines, some millions per second on one core, so that their consumer is the bottleneck.
///
/// ```
/// use bucksaw_generate::{Config, SampleFormat, Generator};
/// let config = Config { format: SampleFormat::Json, size: None, seed: 1 };
/// let mut line = Vec::new();
/// Generator::new(config, 0).append_line(&mut line, 0);
/// assert!(line.starts_with(br#"{"time":"1970-01-01T00:00:00.000Z","level":""#) && line.ends_with(b"}\n"));
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    config: Config,
    kinds: LineKinds,
    filler: TemplateFiller,
}

impl Generator {
    /// A generator that starts at `start`, in milliseconds since 1970. Incidents and the uptime of hosts count from
    /// then.
    pub fn new(config: Config, start: u64) -> Self {
        let filler = TemplateFiller::new(config.seed, start);
        let kinds = match config.format {
            SampleFormat::Text => LineKinds::text(),
            SampleFormat::Json => LineKinds::json(),
        };
        Self { config, kinds, filler }
    }

    /// Appends a line with its line feed and this time, in milliseconds since 1970.
    ///
    /// The line is UTF-8 and contains no other line feed. Times may repeat, jump, or go back.
    pub fn append_line(&mut self, out: &mut Vec<u8>, unix_ms: u64) {
        let start = out.len();
        let level = self.filler.begin_line(unix_ms);
        if let Some(template) = self.kinds.draw(level, &mut self.filler.rng) {
            self.filler.fill(template, out);
        }
        if let Some(size) = self.config.size {
            let TemplateFiller { rng, cut_offsets: cuts, .. } = &mut self.filler;
            match self.config.format {
                SampleFormat::Text => fit::text(out, start, size, rng),
                SampleFormat::Json => fit::json(out, start, size, cuts, rng),
            }
        }
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests;
