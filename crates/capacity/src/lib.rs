//! The capacity of a cluster: what nodes need for a load, how fast they answer, and which resource limits them first.
//!
//! [`Calibration`] has the costs that were measured on one machine, [`CapacityInput`] the load, the questions and the machines.
//! [`Capacity::of`] combines them by the formulas of `bucksaw-model`. Each [`PlanFigure`] carries its formula and the values of
//! its symbols, so that a reader can check it. `docs/model.md` states the assumptions.
//!
//! [`HeadRoom`] is about a node that runs: what it uses, what its work costs by a calibration, and how much more it can carry.
//! [`HeadRoomWindow`] keeps the last [`WorkCounters`] of a node for it.
//!
//! All values are SI: seconds, bytes, cores, and rates per second. This crate does no I/O and never panics: input that
//! makes no sense is an [`InputError`], and a value that does not exist (the response time of an overloaded node) is
//! infinite.

mod calibration;
mod capacity;
mod cluster_figures;
mod cpu_limit;
mod disk_limit;
mod figure;
mod figures;
mod head_room;
mod head_room_window;
mod ingest_figures;
mod input;
mod limits;
mod planned_node;
mod question_demand;
mod question_kind;
mod questions;
mod range_text;
mod repair;
mod request_times;
mod resource;
mod search_figures;
mod segment_rotation;
mod store_figures;
mod tier;
mod time_histogram;
mod work_counters;
mod write_path;

pub use calibration::{
    AcceptCost, Calibration, CalibrationError, MachineDescription, QuestionCost, ScalingCost, StoreCost,
};
pub use capacity::{Capacity, TierSize};
pub use figure::{FigureUnit, PlanFigure, Section, Symbol};
pub use head_room::HeadRoom;
pub use head_room_window::{HeadRoomWindow, RecentHeadRoom};
pub use input::{AckPoint, CapacityInput, CpuLimit, InputError, NodeSize, PlannedQuestion, Targets};
pub use limits::ResourceLimit;
pub use question_kind::QuestionKind;
pub use questions::QuestionFigures;
pub use request_times::{RequestTimes, TimesAtLoad};
pub use resource::Resource;
pub use tier::{PlannedNodes, Tier};
pub use time_histogram::TimeHistogram;
pub use work_counters::{NodeRates, WorkCounters};

#[cfg(test)]
mod tests;
