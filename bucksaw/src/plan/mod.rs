//! `bucksaw plan`: what a cluster needs for a load, and what it will do.
//!
//! The costs come from a file, from the program itself, or from a measurement ([`measure`]); `bucksaw-capacity` computes, and
//! [`render`] prints. [`live`] compares a running cluster with them.

mod args;
mod calibration_file;
mod least_squares;
mod live;
mod measure;
mod metrics_text;
mod render;
mod work_counters;

use bucksaw_capacity::{Calibration, Capacity};
use sysinfo::System;

use args::Defaults;
pub(crate) use args::PlanArgs;
pub(crate) use calibration_file::built_in_calibration;
pub(crate) use work_counters::parse_counters;

use crate::exit::Exit;
use crate::failure::UsageError;
use crate::print::Out;

pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<Exit> {
    if !args.live {
        // A missing rate is reported before anything is measured.
        args.rate()?;
    }
    let (calibration, line_bytes) = match (&args.sample, &args.calibration) {
        (Some(sample), _) => {
            let scratch = args.scratch_dir.clone().unwrap_or_else(std::env::temp_dir);
            let measured = measure::calibrate(sample, &scratch)?;
            (measured.calibration, Some(measured.line_bytes))
        }
        (None, Some(path)) => (calibration_file::load(path)?, None),
        (None, None) => (calibration_file::built_in_calibration()?, None),
    };
    if let Some(path) = &args.save_calibration {
        calibration_file::save(&calibration, path)?;
    }
    if args.live {
        return live::run(args, &calibration);
    }
    let input = args.input(defaults(&calibration, line_bytes))?;
    let capacity = Capacity::of(&input, &calibration).map_err(|error| UsageError(error.to_string()))?;
    let text = match args.output {
        crate::args::DocumentFormat::Text => render::text(&input, &calibration, &capacity, args.explain),
        _ => render::json(&input, &calibration, &capacity),
    };
    let mut out = Out::stdout()?;
    out.write_sanitised(text.as_bytes())?;
    out.flush()?;
    Ok(if capacity.is_enough { Exit::Done } else { Exit::Failed })
}

/// Nodes are as this machine, with the disk on which the costs were measured.
fn defaults(calibration: &Calibration, line_bytes: Option<f64>) -> Defaults {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut system = System::new();
    system.refresh_memory();
    Defaults {
        cores: cores as f64,
        memory_bytes: system.total_memory() as f64,
        disk_bytes_per_second: calibration.disk_bytes_per_second,
        line_bytes,
    }
}
