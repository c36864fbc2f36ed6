//! All machines of a run.

use std::collections::{BTreeMap, BTreeSet};

use bucksaw_doors::sim::World;
use bucksaw_ingest::View;
use bucksaw_record::Id;
use bucksaw_segment::Chunk;

use crate::machine::{Machine, Settings};
use crate::scenario::Scenario;

pub(crate) struct Fleet {
    pub(crate) machines: Vec<Machine>,
    pub(crate) copies: usize,
}

impl Fleet {
    /// The machines of a scenario, none of them up.
    pub(crate) fn build(world: &World, scenario: &Scenario) -> Self {
        let names: Vec<String> = (0..scenario.roles.len()).map(|number| format!("n{number}")).collect();
        let join: Vec<String> = names.iter().map(|name| format!("{name}:7659")).collect();
        let machine = |(number, name): (usize, &String)| {
            let settings = Settings::small(scenario.copies, join.clone());
            let roles = scenario.roles.get(number).copied().unwrap_or_default();
            Machine::new(world.add_node(name), number, roles, settings)
        };
        Self { machines: names.iter().enumerate().map(machine).collect(), copies: scenario.copies }
    }

    /// Starts those that are not up.
    pub(crate) fn start_all(&mut self) {
        self.machines.iter_mut().for_each(Machine::start);
    }

    /// How many stores hold each record, as far as they are up, and its text.
    pub(crate) fn stored(&self) -> BTreeMap<Id, (usize, String)> {
        let mut all: BTreeMap<Id, (usize, String)> = BTreeMap::new();
        for machine in &self.machines {
            let Some(node) = machine.node() else { continue };
            let mut here: BTreeMap<Id, String> = BTreeMap::new();
            for segment in node.shelf.segments().iter() {
                for block in 0..segment.footer().blocks.len() {
                    if let Ok(block) = segment.block(block) {
                        block.chunks().for_each(|chunk| note(&chunk, &mut here));
                    }
                }
            }
            for (id, text) in here {
                all.entry(id).or_insert((0, text)).0 += 1;
            }
        }
        all
    }

    /// The records that as many stores hold as have to.
    pub(crate) fn kept(&self) -> BTreeSet<Id> {
        let enough = |(_, (count, _)): &(Id, (usize, String))| *count >= self.copies;
        self.stored().into_iter().filter(enough).map(|(id, _)| id).collect()
    }

    /// What waits in queues, each record once.
    pub(crate) fn queued(&self) -> BTreeMap<Id, String> {
        let mut all = BTreeMap::new();
        for machine in &self.machines {
            let Some(node) = machine.node() else { continue };
            node.queue.segments().iter().for_each(|view| read(view, &mut all));
        }
        all
    }

    /// Segments that wait in queues, and no store has taken.
    pub(crate) fn waiting(&self) -> usize {
        let nodes = self.machines.iter().filter_map(Machine::node);
        nodes.map(|node| node.queue.segments().len()).sum()
    }
}

fn read(view: &View, all: &mut BTreeMap<Id, String>) {
    let Ok((places, _)) = view.places() else { return };
    let mut frames = view.frames(bucksaw_segment::queue::HEADER_LEN as u64);
    for place in places {
        frames.seek(place.at);
        if let Ok(Some(chunk)) = frames.next_chunk() {
            note(&chunk, all);
        }
    }
}

fn note(chunk: &Chunk<'_>, all: &mut BTreeMap<Id, String>) {
    for (row, record) in (0..).zip(chunk.records()) {
        if let Some(id) = chunk.rows.id(row) {
            all.insert(id, String::from_utf8_lossy(record).into_owned());
        }
    }
}
