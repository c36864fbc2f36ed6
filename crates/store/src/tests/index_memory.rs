//! Index memory: its sum, its limit, and the check at the start.

use super::*;
use bucksaw_segment::OpenError;

fn gauge(machine: &StoreTestMachine) -> u64 {
    machine.store.metrics.index_bytes.get() as u64
}

/// A segment of this number of lines, one or two to a block.
fn gather(machine: &mut StoreTestMachine, lines: u32) {
    (0..lines).for_each(|at| machine.put(Durability::Fast, &format!("{at:0200}"), 0));
    machine.gather_all();
}

fn open(machine: &StoreTestMachine, index_bytes_max: u64) -> Result<u64, OpenError> {
    let clock = Arc::new(sim::Clock::at_unix_ms(machine.clock.unix_ms()));
    let env = Env { fs: Arc::new(machine.fs.clone()), clock: clock as _, entropy: Arc::new(sim::Entropy::seeded(7)) };
    let config = Config { index_bytes_max, ..config() };
    let store = SegmentStore::open(env, Path::new("/d/store"), config, Metrics::new(&mut Registry::default()))?;
    Ok(store.index_memory.bytes())
}

#[test]
fn it_grows_with_blocks_and_shrinks_with_retention() {
    let age = Config { retention_age: Some(Duration::from_secs(100)), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), age);
    let mut before = gauge(&machine);
    assert_eq!(before, 0);
    for lines in [2, 8, 8] {
        gather(&mut machine, lines);
        assert!(gauge(&machine) > before + u64::from(lines) * 100, "{before} {}", gauge(&machine));
        before = gauge(&machine);
    }
    let sum = machine.store.segments().iter().map(|segment| segment.index_bytes()).sum::<u64>();
    assert_eq!((sum, machine.store.index_memory.bytes()), (before, before));
    machine.advance(Duration::from_secs(50));
    gather(&mut machine, 2);
    let all = gauge(&machine);
    machine.advance(Duration::from_secs(60));
    machine.store.retain(&machine.queue);
    assert_eq!(gauge(&machine), all - before);
}

#[test]
fn it_is_high_from_three_quarters_on_and_full_until_an_eighth_is_free() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    (0..8).for_each(|_| gather(&mut machine, 1));
    let (each, index) = (gauge(&machine) / 8, crate::index_memory::StoreIndexMemory::default());
    let segments = machine.store.segments();
    let max = each * 7;
    let look = |count: usize| {
        let became_high = index.update(&segments[..count], max);
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
fn a_store_opens_with_half_more_and_reports_the_need_otherwise() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
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
    let names = machine.store_file_names();
    assert!(open(&machine, 0).is_err());
    assert_eq!(machine.store_file_names(), names, "nothing was removed");
}
