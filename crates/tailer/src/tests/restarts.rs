//! What happens to files while the tailer does not run.

use super::machine::{LogMachine, on_both, packed};
use crate::GapReason;

#[test]
fn a_file_that_has_grown_is_read_on() {
    on_both(&["*.log"], |machine| {
        machine.write("a.log", 3);
        machine.append("a.log", b"half a ");
        machine.run();
        machine.restart();
        machine.append("a.log", b"line\n");
        machine.written.push("half a line".to_owned());
        machine.write("a.log", 3);
        machine.run();
        machine.check();
        machine.check_lines();
    });
}

#[test]
fn rotated_files_are_found_by_number() {
    for pattern in ["app.log", "app.log*"] {
        for names in [
            ["app.log.1", "app.log.2", "app.log.3"],
            ["app.log-20240103", "app.log-20240102", "app.log-20240101"],
            ["app-1.log", "app-2.log", "app-3.log"],
        ] {
            for rotations in 1..4 {
                on_both(&[pattern], |machine| {
                    machine.write("app.log", 3);
                    machine.run();
                    machine.write("app.log", 2);
                    for _ in 0..rotations {
                        for number in (1..3).rev() {
                            if machine.exists(names[number - 1]) {
                                machine.rename(names[number - 1], names[number]);
                            }
                        }
                        machine.rename("app.log", names[0]);
                        machine.write("app.log", 2);
                    }
                    machine.restart();
                    machine.run();
                    machine.check();
                    machine.check_order();
                    machine.write("app.log", 1);
                    machine.run_long();
                    machine.restart();
                    machine.run_long();
                    machine.check();
                });
            }
        }
    }
}

#[test]
fn rotated_and_compressed_files_are_found_by_their_text() {
    for pattern in ["app.log", "app.log*"] {
        for extension in ["gz", "zst"] {
            on_both(&[pattern], |machine| {
                machine.configure(|config| config.read_bytes = 500);
                machine.write("app.log", 100);
                machine.run();
                machine.write("app.log", 50);
                machine.append("app.log", b"the end");
                machine.written.push("the end".to_owned());
                machine.rename("app.log", "app.log.2");
                machine.compress("app.log.2", extension);
                machine.write("app.log", 2);
                machine.rename("app.log", "app.log.1");
                machine.compress("app.log.1", extension);
                machine.write("app.log", 2);
                machine.restart();
                machine.run();
                machine.check();
                machine.run_long();
                machine.restart();
                machine.run_long();
                machine.check();
            });
        }
    }
}

#[test]
fn a_truncated_file_goes_on_in_its_copy() {
    for pattern in ["app.log", "app.log*"] {
        for lines in [1, 60] {
            on_both(&[pattern], |machine| {
                machine.write("app.log", 30);
                machine.run();
                machine.write("app.log", 5);
                machine.restart();
                machine.copy("app.log", "app.log.1");
                machine.write_from("app.log", 0, b"");
                machine.write("app.log", lines);
                machine.run();
                machine.check();
                machine.run_long();
                machine.restart();
                machine.run_long();
                machine.check();
            });
        }
    }
}

#[test]
fn a_reused_number_is_another_file() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.fs().reuse_inode_numbers();
    machine.write("a.log", 30);
    machine.write("b.log", 3);
    machine.run();
    let before = machine.env.fs.stat(&machine.path("a.log")).unwrap().identity;
    machine.restart();
    machine.remove("a.log");
    machine.write("a.log", 60);
    assert_eq!(machine.env.fs.stat(&machine.path("a.log")).unwrap().identity, before);
    machine.run_long();
    machine.check_lines();
    // Lines may have been written before the removal.
    let gaps: Vec<_> = machine.tailer.gaps().map(|gap| (gap.reason, gap.bytes)).collect();
    assert_eq!(gaps, [(GapReason::Truncated, 0)]);
}

#[test]
fn the_number_of_an_empty_file_can_be_given_to_another_log() {
    for pattern in ["*.log", "*.log*"] {
        let mut machine = LogMachine::simulated(&[pattern]);
        machine.fs().reuse_inode_numbers();
        machine.append("app.log", b"");
        machine.write("b.log", 3);
        machine.run();
        let number = machine.env.fs.stat(&machine.path("app.log")).unwrap().identity;
        machine.restart();
        machine.fill_rotate_and_compress("gz");
        machine.rotate_into_number(number);
        machine.check();
        assert!(machine.sink.delivered.iter().all(|(path, line)| line.contains("b.log") == path.ends_with("b.log")));
    }
}

#[test]
fn a_vanished_file_is_a_gap() {
    on_both(&["*.log"], |machine| {
        machine.configure(|config| config.read_bytes = 10_000);
        machine.write("a.log", 500);
        machine.write("b.log", 1);
        machine.scan();
        machine.read_once().unwrap();
        let delivered = machine.lines().len();
        let missing = 500 + 1 - delivered;
        assert!(missing > 100);
        machine.restart();
        machine.remove("a.log");
        machine.run_long();
        assert_eq!(machine.lines().len(), delivered);
        let gap = machine.tailer.gaps().next().unwrap();
        assert_eq!((gap.reason, machine.tailer.counters().gaps()), (GapReason::Vanished, 1));
        let read: usize = machine.lines().iter().filter(|line| line.contains("a.log")).map(|line| line.len() + 1).sum();
        let written: usize =
            machine.written.iter().filter(|line| line.contains("a.log")).map(|line| line.len() + 1).sum();
        assert_eq!(gap.bytes as usize, written - read);
        assert_eq!(machine.tailer.positions().count(), 1);
        machine.restart();
        machine.run_long();
        assert_eq!(machine.tailer.counters().gaps(), 0);
    });
}

#[test]
fn a_gap_is_counted_once_over_restarts() {
    on_both(&["*.log"], |machine| {
        machine.write("a.log", 3);
        machine.append("a.log", b"half a line");
        machine.run();
        machine.restart();
        machine.remove("a.log");
        // The rest of the file is given up, and not ended yet.
        machine.scan();
        machine.scan();
        let gaps: Vec<u64> = machine.tailer.gaps().map(|gap| gap.bytes).collect();
        assert_eq!(gaps, [11]);
        machine.restart();
        machine.run_long();
        assert_eq!((machine.tailer.counters().gaps(), machine.tailer.positions().count()), (0, 0));
    });
}

#[test]
fn a_file_that_returns_after_its_gap_can_be_another_one() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.write("a.log", 3);
    machine.run();
    machine.restart();
    machine.mkdir("other");
    machine.rename("a.log", "other/a");
    machine.scan();
    machine.scan();
    assert_eq!(machine.tailer.counters().gaps(), 1);
    machine.rename("other/a", "a.log");
    machine.restart();
    machine.write("a.log", 1);
    machine.run();
    machine.check();
    machine.restart();
    machine.remove("a.log");
    machine.run_long();
    assert_eq!(machine.tailer.counters().gaps(), 1);
}

#[test]
fn an_empty_file_that_was_filled_and_compressed_meanwhile_is_no_gap() {
    for (extension, has_earlier_run) in [("gz", false), ("gz", true), ("zst", false), ("zst", true)] {
        on_both(&["*.log", "*.log*"], |machine| {
            machine.append("app.log", b"");
            machine.run();
            machine.fill_rotate_and_compress(extension);
            machine.restart();
            if has_earlier_run {
                // It finds the compressed form, and ends before it gives up the search for the file.
                machine.scan();
                machine.restart();
            }
            machine.run_long();
            machine.check();
            assert_eq!(machine.tailer.gaps().count(), 0);
        });
    }
}

#[test]
fn an_empty_file_that_is_gone_is_a_gap_also_beside_an_older_empty_one() {
    for extension in ["gz", "zst"] {
        let mut machine = LogMachine::simulated(&["app.log"]);
        machine.append("app.log", b"");
        machine.rename("app.log", "app.log.1");
        machine.compress("app.log.1", extension);
        machine.append("app.log", b"");
        machine.run();
        machine.append("app.log", b"lost\n");
        machine.remove("app.log");
        machine.restart();
        machine.run_long();
        assert_eq!(machine.tailer.counters().gaps(), 1);
    }
}

/// The number of the file is free when its compressed form is written, as with a program that compresses through another disk.
#[test]
fn a_compressed_form_with_the_number_of_its_file_is_read_to_its_end() {
    for extension in ["gz", "zst"] {
        for is_running in [false, true] {
            let mut machine = LogMachine::simulated(&["app.log"]);
            machine.fs().reuse_inode_numbers();
            machine.write("app.log", 30);
            machine.run();
            machine.rename("app.log", "app.log.1");
            machine.write("app.log", 1);
            machine.run_long();
            let identity = machine.env.fs.stat(&machine.path("app.log.1")).unwrap().identity;
            // Its writer still had it open.
            machine.write("app.log.1", 1);
            let bytes = packed(&machine.contents("app.log.1"), extension);
            machine.remove("app.log.1");
            let name = format!("app.log.1.{extension}");
            machine.append(&name, &bytes);
            assert_eq!(machine.env.fs.stat(&machine.path(&name)).unwrap().identity, identity);
            if !is_running {
                machine.restart();
            }
            machine.run_long();
            machine.check();
            // It is not decompressed once more.
            machine.restart();
            machine.scan();
            let states: Vec<_> = machine.tailer.file_status().map(|file| file.state).collect();
            assert_eq!(states.len(), 1, "{states:?}");
            machine.run_long();
            machine.check();
        }
    }
}

#[test]
fn files_of_a_directory_that_is_mounted_late_are_read_on() {
    let mut machine = LogMachine::simulated(&["*/a.log"]);
    machine.mkdir("data");
    machine.write("data/a.log", 3);
    machine.run();
    machine.restart();
    machine.fs().symlink("/elsewhere", "/l/data");
    machine.run();
    machine.env.fs.remove(&machine.path("data")).unwrap();
    machine.write("data/a.log", 3);
    machine.run();
    machine.check();
}

#[test]
fn a_damaged_compressed_file_is_a_gap_once() {
    for pattern in ["app.log", "app.log*"] {
        for extension in ["gz", "zst"] {
            on_both(&[pattern], |machine| {
                machine.write("app.log", 100);
                machine.run();
                for number in 0..50_000_u32 {
                    let line = format!("{:x}\n", number.wrapping_mul(2_654_435_761));
                    machine.append("rest", line.as_bytes());
                }
                let rest = machine.contents("rest");
                machine.append("app.log", &rest);
                let bytes = packed(&machine.contents("app.log"), extension);
                machine.remove("app.log");
                machine.append(&format!("app.log.1.{extension}"), &bytes[..bytes.len() / 2]);
                machine.write("app.log", 1);
                machine.restart();
                machine.run_long();
                let gaps: Vec<_> = machine.tailer.gaps().map(|gap| gap.reason).collect();
                assert_eq!(gaps, [GapReason::Damaged]);
                assert!(machine.lines().contains(&machine.written.last().unwrap().as_str()));
                let count = machine.lines().len();
                machine.restart();
                machine.run_long();
                assert_eq!((machine.lines().len(), machine.tailer.counters().gaps()), (count, 0));
            });
        }
    }
}

#[test]
fn an_endless_compressed_file_ends_at_the_limit() {
    let mut machine = LogMachine::simulated(&["app.log*"]);
    machine.configure(|config| config.unpacked_bytes_max = 3 << 20);
    machine.write("app.log", 1);
    machine.append("app.log.1.zst", &packed(&vec![b'\n'; 64 << 20], "zst"));
    machine.run();
    let gaps: Vec<_> = machine.tailer.gaps().map(|gap| gap.reason).collect();
    assert_eq!(gaps, [GapReason::TooLong]);
    let read = machine.lines().len();
    assert!(((3 << 20)..(4 << 20)).contains(&read), "{read}");
    machine.restart();
    machine.run();
    assert_eq!(machine.lines().len(), read);
}

#[test]
fn a_changed_device_is_no_new_file() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.write("a.log", 30);
    machine.run();
    machine.sink.positions.values_mut().for_each(|position| position.identity.device = 77);
    machine.restart();
    machine.write("a.log", 1);
    machine.run_long();
    machine.check();
}

#[test]
fn a_kill_at_any_moment_loses_and_repeats_nothing() {
    for read_bytes in [1, 7, 64, 100, 5_000] {
        let mut machine = LogMachine::simulated(&["*.log"]);
        machine.configure(|config| config.read_bytes = read_bytes);
        for _ in 0..20 {
            machine.write("a.log", 2);
            machine.append("a.log", b"half ");
            machine.scan();
            machine.read_once().unwrap();
            machine.read_once().unwrap();
            machine.restart();
            machine.append("a.log", b"\n");
            machine.written.push("half ".to_owned());
            machine.scan();
            machine.read_once().unwrap();
        }
        machine.run();
        machine.run();
        machine.check();
    }
}
