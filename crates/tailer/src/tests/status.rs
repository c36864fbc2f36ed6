//! What is known of files.

use std::io;
use std::time::Duration;

use super::machine::LogMachine;

fn states(machine: &mut LogMachine) -> Vec<(&'static str, u64, u64)> {
    machine.tailer.note_growth();
    machine.tailer.file_status().map(|file| (file.state.name(), file.offset, file.size)).collect()
}

#[test]
fn files_have_a_state_and_a_size() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.append("a.log", b"one\n");
    machine.scan();
    assert_eq!(states(&mut machine), [("active", 0, 4)]);
    machine.read();
    machine.append("a.log", b"two\n");
    assert_eq!(states(&mut machine), [("active", 4, 8)]);
    machine.run();
    assert_eq!(states(&mut machine), [("idle", 8, 8)]);
    machine.rename("a.log", "a.log.1");
    machine.scan();
    assert_eq!(states(&mut machine), [("rotated", 8, 8)]);
    machine.run_long();
    assert_eq!(states(&mut machine), []);
}

#[test]
fn the_wait_of_a_byte_begins_when_it_is_seen() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.append("a.log", b"one\n");
    machine.scan();
    machine.read();
    let key = machine.tailer.file_status().next().unwrap().key;
    machine.clock.advance(Duration::from_secs(60));
    machine.append("a.log", b"two\n");
    machine.sink.is_failing = true;
    let seen = machine.env.clock.uptime();
    let failed: io::Result<_> = machine.read_once();
    assert!(failed.is_err());
    machine.clock.advance(Duration::from_secs(60));
    assert_eq!(machine.tailer.seen_at(key, 4), Some(seen));
    assert_eq!(machine.tailer.seen_at(key, 8), None);
    // Reading is stopped, and the file grows.
    machine.append("a.log", b"three\n");
    assert_eq!(states(&mut machine), [("active", 4, 14)]);
    assert_eq!(machine.tailer.seen_at(key, 4), Some(seen));
    assert!(machine.tailer.seen_at(key, 8) >= Some(seen + Duration::from_secs(60)));
}

#[test]
fn a_compressed_file_is_read_on_where_the_sink_failed() {
    for extension in ["gz", "zst"] {
        let mut machine = LogMachine::simulated(&["*.log*"]);
        machine.configure(|config| config.read_bytes = 200);
        machine.write("a.log", 100);
        machine.compress("a.log", extension);
        machine.scan();
        for _ in 0..5 {
            machine.sink.is_failing = true;
            assert!(machine.read_once().is_err());
            machine.sink.is_failing = false;
            machine.read_once().unwrap();
        }
        machine.run();
        machine.check();
    }
}
