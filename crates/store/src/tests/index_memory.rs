//! The memory that is known of stored segments takes: summed up, bounded while the node runs, and checked at the start.

use super::*;
use bucksaw_segment::OpenError;

fn gauge(machine: &Machine) -> u64 {
    machine.shelf.metrics.index_bytes.get() as u64
}

/// A segment of this number of lines, one or two to a block.
fn gather(machine: &mut Machine, lines: u32) {
    (0..lines).for_each(|at| machine.put(Durability::Fast, &format!("{at:0200}"), 0));
    machine.gather_all();
}

fn open(machine: &Machine, index_bytes_max: u64) -> Result<u64, OpenError> {
    let clock = Arc::new(sim::Clock::at(machine.clock.unix_ms()));
    let doors =
        Doors { fs: Arc::new(machine.fs.clone()), clock: clock as _, entropy: Arc::new(sim::Entropy::seeded(7)) };
    let config = Config { index_bytes_max, ..config() };
    let shelf = Shelf::open(doors, Path::new("/d/shelf"), config, Metrics::new(&mut Registry::default()))?;
    Ok(shelf.index_memory().bytes())
}

#[test]
fn it_grows_with_blocks_and_shrinks_with_retention() {
    let age = Config { retention_age: Some(Duration::from_secs(100)), ..config() };
    let mut machine = Machine::start(sim::Fs::new(), age);
    let mut before = gauge(&machine);
    assert_eq!(before, 0);
    for lines in [2, 8, 8] {
        gather(&mut machine, lines);
        assert!(gauge(&machine) > before + u64::from(lines) * 100, "{before} {}", gauge(&machine));
        before = gauge(&machine);
    }
    let sum = machine.shelf.segments().iter().map(|segment| segment.index_bytes()).sum::<u64>();
    assert_eq!((sum, machine.shelf.index_memory().bytes()), (before, before));
    machine.pass(Duration::from_secs(50));
    gather(&mut machine, 2);
    let all = gauge(&machine);
    machine.pass(Duration::from_secs(60));
    machine.shelf.retain(&machine.queue);
    assert_eq!(gauge(&machine), all - before);
}

#[test]
fn it_is_high_from_three_quarters_on_and_full_until_an_eighth_is_free() {
    let mut machine = Machine::start(sim::Fs::new(), config());
    (0..8).for_each(|_| gather(&mut machine, 1));
    let (each, index) = (gauge(&machine) / 8, IndexMemory::default());
    let segments = machine.shelf.segments();
    let max = each * 7;
    let look = |count: usize| {
        let became_high = index.look(&segments[..count], max);
        assert_eq!(index.bytes(), segments[..count].iter().map(|segment| segment.index_bytes()).sum::<u64>());
        (became_high, index.is_high(), index.is_full())
    };
    assert_eq!(look(5), (false, false, false));
    assert_eq!(look(6), (true, true, false));
    assert_eq!(look(8), (false, true, true));
    assert_eq!(look(7), (false, true, true), "an eighth is not free yet");
    assert_eq!(look(6), (false, true, false));
    assert_eq!(look(0), (false, false, false));
}

#[test]
fn a_shelf_opens_with_half_more_and_names_what_it_needs_otherwise() {
    let mut machine = Machine::start(sim::Fs::new(), config());
    (0..8).for_each(|_| gather(&mut machine, 4));
    let bytes = gauge(&machine);
    for (max, want) in [(bytes, true), (bytes / 3 * 2 + 2, true), (bytes / 3 * 2 - 2, false), (bytes / 4, false)] {
        match open(&machine, max) {
            Ok(found) => assert_eq!((found, want), (bytes, true), "{max}"),
            Err(OpenError::Memory { needed, max: opened, .. }) => {
                assert_eq!((needed, opened, want), (bytes, max + max / 2, false), "{max}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    let names = machine.shelf_names();
    assert!(open(&machine, 0).is_err());
    assert_eq!(machine.shelf_names(), names, "nothing was removed");
}
