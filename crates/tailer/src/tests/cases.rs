//! What happens to files while the tailer runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Env, sim};

use super::machine::{LogDisk, LogMachine, on_both, packed};
use crate::{FileChunk, GapReason, PathPattern, ReadFrom, Tailer, TailerConfig};

#[test]
fn new_files_and_directories_are_found() {
    on_both(&["*.log", "*/deep/*.log", "**/x.txt"], |machine| {
        machine.write("a.log", 3);
        machine.run();
        machine.mkdir("pod/deep");
        machine.write("pod/deep/b.log", 2);
        machine.write("pod/deep/x.txt", 2);
        machine.write("pod/deep/other", 1);
        machine.written.pop();
        machine.run();
        machine.write("a.log", 1);
        machine.write("pod/deep/b.log", 1);
        machine.run();
        machine.check();
        machine.check_order();
        assert_eq!(machine.tailer.counters().files_found, 3);
    });
}

/// A tailer of `/app.log` with this text on a simulated disk.
fn tailer_of(text: &[u8]) -> (Tailer, Arc<sim::Clock>) {
    let fs = sim::Fs::new();
    fs.append_to("/app.log", text).unwrap();
    let clock = Arc::new(sim::Clock::at_unix_ms(1_000));
    let env = Env { fs: Arc::new(fs), clock: Arc::clone(&clock) as _, entropy: Arc::new(sim::Entropy::seeded(1)) };
    let patterns = vec![PathPattern::parse("/*.log").unwrap()];
    let mut tailer = Tailer::new(TailerConfig { patterns, ..TailerConfig::default() }, &env, Vec::new(), true);
    tailer.scan();
    (tailer, clock)
}

#[test]
fn the_rest_of_a_chunk_is_delivered_again_on_demand() {
    let (mut tailer, _) = tailer_of(b"one\ntwo\n");
    let mut texts = Vec::new();
    let mut read = |tailer: &mut Tailer| {
        tailer
            .read(&mut |chunk| {
                texts.push((chunk.offset(), chunk.text.to_vec()));
                Ok(4)
            })
            .unwrap();
    };
    read(&mut tailer);
    read(&mut tailer);
    let key = tailer.active_files().next().unwrap();
    tailer.deliver_again(key);
    read(&mut tailer);
    read(&mut tailer);
    assert_eq!(texts, [(0, b"one\ntwo\n".to_vec()), (4, b"two\n".to_vec())]);
}

#[test]
fn a_paused_file_is_not_read_and_not_in_memory() {
    let (mut tailer, clock) = tailer_of(b"one\ntwo\n");
    let mut key = None;
    let mut refuse = |chunk: &FileChunk<'_>| {
        key = Some(chunk.key);
        Ok(0)
    };
    tailer.read(&mut refuse).unwrap();
    let key = key.unwrap();
    assert!(tailer.pending_bytes > 0);
    tailer.pause(key);
    assert_eq!((tailer.pending_bytes, tailer.active_files().count()), (0, 0));
    clock.advance(2 * TailerConfig::default().flush_after);
    tailer.read(&mut |_| panic!("it is paused")).unwrap();
    let mut texts = Vec::new();
    for take in [0, 4, 4] {
        tailer.deliver_again(key);
        let mut take = |chunk: &FileChunk<'_>| {
            texts.push((chunk.offset(), chunk.text.to_vec()));
            Ok(take)
        };
        tailer.read(&mut take).unwrap();
        tailer.pause(key);
    }
    let all = b"one\ntwo\n".to_vec();
    assert_eq!(texts, [(0, all.clone()), (0, all), (4, b"two\n".to_vec())]);
}

#[test]
fn a_line_that_has_waited_is_delivered_until_the_sink_takes_it() {
    let (mut tailer, clock) = tailer_of(b"no end");
    tailer.read(&mut |_| Ok(0)).unwrap();
    clock.advance(TailerConfig::default().flush_after);
    for _ in 0..3 {
        assert!(tailer.read(&mut |_| Err(std::io::ErrorKind::QuotaExceeded.into())).is_err());
    }
    let mut waited = Duration::ZERO;
    let mut take = |chunk: &FileChunk<'_>| {
        waited = chunk.waited;
        Ok(0)
    };
    tailer.read(&mut take).unwrap();
    tailer.read(&mut |_| panic!("delivered twice")).unwrap();
    assert!(waited >= TailerConfig::default().flush_after);
}

#[test]
fn a_file_with_several_names_is_read_once() {
    on_both(&["a*", "*.log", "links/*"], |machine| {
        machine.mkdir("links");
        machine.write("a.log", 3);
        machine.symlink("a.log", "links/one");
        machine.symlink("a.log", "links/two");
        machine.run();
        machine.write("a.log", 3);
        machine.run();
        machine.check();
        assert_eq!(machine.tailer.counters().files_found, 1);
    });
}

#[test]
fn a_link_that_is_changed_is_a_rotation() {
    on_both(&["current"], |machine| {
        machine.write("1.txt", 3);
        machine.symlink("1.txt", "current");
        machine.run();
        machine.write("1.txt", 1);
        machine.write("2.txt", 2);
        machine.symlink("2.txt", "current");
        machine.write("1.txt", 1);
        machine.run_long();
        machine.check();
        assert_eq!(machine.sink.ended.len(), 1);
    });
}

#[test]
fn a_renamed_file_is_read_to_its_end_and_closed() {
    on_both(&["app.log"], |machine| {
        machine.configure(|config| config.close_idle_after = Duration::from_secs(900));
        machine.write("app.log", 3);
        machine.run();
        machine.write("app.log", 2);
        machine.rename("app.log", "app.log.1");
        machine.write("app.log", 2);
        machine.run();
        machine.check();
        machine.check_order();
        machine.write("app.log.1", 2);
        machine.run();
        machine.write("app.log", 2);
        machine.append("app.log.1", b"no line end");
        machine.written.push("no line end".to_owned());
        machine.run();
        assert!(machine.sink.ended.is_empty());
        machine.run_long();
        machine.check();
        assert_eq!(machine.sink.ended.len(), 1);
        assert!(machine.sink.delivered.iter().all(|(path, _)| path.ends_with("app.log")));
        if let LogDisk::Sim(fs) = &machine.disk {
            assert_eq!(fs.handles(), 0, "idle and finished files are closed");
        }
        machine.write("app.log", 1);
        machine.run();
        machine.check();
    });
}

#[test]
fn rotated_names_that_match_are_not_read_again() {
    on_both(&["app.log*"], |machine| {
        for _ in 0..4 {
            machine.write("app.log", 3);
            machine.run();
            for number in (1..4).rev() {
                if machine.exists(&format!("app.log.{number}")) {
                    machine.rename(&format!("app.log.{number}"), &format!("app.log.{}", number + 1));
                }
            }
            machine.rename("app.log", "app.log.1");
            machine.write("app.log", 1);
            machine.run();
        }
        machine.run_long();
        machine.restart();
        machine.run_long();
        machine.check();
    });
}

#[test]
fn two_rotations_between_two_scans_lose_nothing() {
    on_both(&["app.log"], |machine| {
        machine.write("app.log", 3);
        machine.run();
        for _ in 0..3 {
            machine.write("app.log", 2);
            for number in (1..4).rev() {
                if machine.exists(&format!("app.log.{number}")) {
                    machine.rename(&format!("app.log.{number}"), &format!("app.log.{}", number + 1));
                }
            }
            machine.rename("app.log", "app.log.1");
        }
        machine.write("app.log", 2);
        machine.run();
        machine.check();
        machine.check_order();
        machine.run_long();
        machine.check();
    });
}

#[test]
fn the_rest_of_a_truncated_file_comes_from_its_copy() {
    for (pattern, grows_over) in [("app.log", false), ("app.log", true), ("app.log*", false), ("app.log*", true)] {
        on_both(&[pattern], |machine| {
            machine.write("app.log", 30);
            machine.run();
            machine.write("app.log", 5);
            machine.append("app.log", b"half a ");
            machine.wake_and_read();
            machine.copy("app.log", "app.log.1");
            machine.write_from("app.log", 0, b"");
            machine.written.push("half a ".to_owned());
            machine.write("app.log", if grows_over { 60 } else { 2 });
            machine.run();
            machine.check();
            machine.write("app.log", 2);
            machine.run_long();
            machine.restart();
            machine.run_long();
            machine.check();
            assert_eq!(machine.tailer.counters().files_found, 0);
        });
    }
}

#[test]
fn a_copy_is_held_while_it_is_made() {
    on_both(&["app.log*"], |machine| {
        machine.write("app.log", 30);
        machine.run();
        let bytes = machine.contents("app.log");
        machine.append("app.log.1", b"");
        machine.run();
        machine.append("app.log.1", &bytes[..700]);
        machine.run();
        machine.append("app.log.1", &bytes[700..]);
        machine.run();
        machine.write("app.log", 3);
        machine.run();
        // The last three lines are in no copy, but were read before the truncation.
        machine.write_from("app.log", 0, b"");
        machine.write("app.log", 3);
        machine.run_long();
        machine.check();
        machine.restart();
        machine.run_long();
        machine.check();
    });
}

#[test]
fn a_copy_that_ends_before_the_position_is_recognised() {
    on_both(&["app.log*"], |machine| {
        for _ in 0..5 {
            machine.write("app.log", 3);
            machine.run();
        }
        machine.copy("app.log", "app.log.1");
        machine.write("app.log", 2);
        machine.wake_and_read();
        machine.write_from("app.log", 0, b"");
        machine.write("app.log", 2);
        machine.run_long();
        machine.check();
        machine.restart();
        machine.run_long();
        machine.check();
    });
}

#[test]
fn a_truncated_file_without_a_copy_is_a_gap() {
    on_both(&["app.log"], |machine| {
        machine.write("app.log", 30);
        machine.run();
        let size = machine.contents("app.log").len();
        machine.write("app.log", 1);
        machine.append("app.log", b"kept in memory");
        machine.wake_and_read();
        machine.write_from("app.log", 0, b"");
        machine.write("app.log", 3);
        machine.run();
        machine.written.push("kept in memory".to_owned());
        machine.check_lines();
        let gap = machine.tailer.gaps().next().unwrap();
        assert_eq!((gap.reason, gap.bytes, machine.tailer.counters().gaps()), (GapReason::Truncated, 0, 1));

        // Truncated to a smaller size: read again from the start.
        machine.sink.delivered.clear();
        machine.written.clear();
        machine.write("app.log", 1);
        machine.run();
        machine.check_lines();
        assert!(size > 100);
        let lines: Vec<_> = machine.lines().iter().map(ToString::to_string).collect();
        machine.sink.delivered.clear();
        drop(lines);
        machine.write_from("app.log", 20, b"\nnew\n");
        machine.run();
        assert_eq!(machine.lines().len(), 2);
        assert_eq!(machine.lines()[1], "new");
        assert_eq!(machine.tailer.counters().truncations, 2);
    });
}

#[test]
fn a_deleted_file_is_read_through_its_handle() {
    on_both(&["*.log"], |machine| {
        if let LogDisk::Sim(fs) = &machine.disk {
            fs.reuse_inode_numbers();
        }
        machine.write("a.log", 3);
        machine.run();
        machine.write("a.log", 3);
        machine.append("a.log", b"the end");
        machine.written.push("the end".to_owned());
        machine.remove("a.log");
        machine.run();
        machine.write("a.log", 3);
        machine.run_long();
        machine.check();
        machine.remove("a.log");
        machine.run_long();
        machine.check();
        assert_eq!(machine.sink.ended.len(), 2);
        assert_eq!(machine.tailer.positions().count(), 0, "nothing is remembered of deleted files");
    });
}

#[test]
fn files_and_their_directory_may_go_at_once() {
    on_both(&["*/*.log"], |machine| {
        machine.mkdir("pod");
        machine.write("pod/a.log", 3);
        machine.run();
        machine.write("pod/a.log", 3);
        machine.remove_dir("pod");
        machine.run_long();
        machine.check();
        assert_eq!(machine.tailer.positions().count(), 0);
    });
}

#[test]
fn compressed_files_that_match_are_copies_or_read_as_text() {
    for extension in ["gz", "zst"] {
        on_both(&["app*"], |machine| {
            let old = machine.new_line("old") + "\n";
            machine.append(&format!("app-old.{extension}"), &packed(old.as_bytes(), extension));
            machine.write("app.log", 40);
            machine.run();
            machine.check();
            machine.rename("app.log", "app.log.1");
            machine.write("app.log", 2);
            machine.run();
            machine.compress("app.log.1", extension);
            machine.run();
            machine.check();
            machine.run_long();
            machine.check();
            machine.rename(&format!("app.log.1.{extension}"), &format!("app.log.2.{extension}"));
            machine.run_long();
            machine.restart();
            machine.run_long();
            machine.check();
        });
    }
}

/// As after a `copytruncate`: nothing was read of the file when its compressed form appears.
#[test]
fn a_file_that_was_empty_is_read_once_if_it_is_rotated_and_compressed_at_once() {
    for extension in ["gz", "zst"] {
        on_both(&["app*"], |machine| {
            machine.append("app.log", b"");
            machine.scan();
            machine.fill_rotate_and_compress(extension);
            machine.run();
            machine.check();
            machine.run_long();
            machine.check();
            machine.restart();
            machine.run_long();
            machine.check();
        });
    }
}

#[test]
fn one_large_file_does_not_stop_others() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.configure(|config| config.read_bytes = 100);
    machine.write("a.log", 400);
    machine.write("b.log", 1);
    machine.scan();
    let report = machine.read_once().unwrap();
    assert!(report.has_more);
    assert!(machine.lines().iter().any(|line| line.contains("b.log")));
    assert!(machine.lines().len() < 10);
    // It grows faster than it is read.
    for _ in 0..50 {
        machine.write("a.log", 5);
        machine.read_once().unwrap();
    }
    machine.run();
    machine.check();
    machine.check_order();
}

#[test]
fn long_lines_are_cut_and_other_bytes_are_kept() {
    on_both(&["*.log"], |machine| {
        machine.configure(|config| (config.pending_bytes_max, config.read_bytes) = (1_000, 300));
        let long: String = (0..2_500).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
        machine.append("long.log", long.as_bytes());
        machine.append("empty.log", b"");
        machine.append("nul.log", b"a\0\0b\n\n\xff\n");
        machine.run();
        machine.append("long.log", b"!\n");
        machine.run();
        let of = |name: &str| {
            let lines = machine.sink.delivered.iter().filter(|(path, _)| path.ends_with(name));
            lines.map(|(_, line)| line.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of("long.log").iter().map(String::len).collect::<Vec<_>>(), [1_000, 1_000, 501]);
        assert_eq!(of("long.log").concat(), long + "!");
        assert_eq!(of("nul.log"), ["a\0\0b", "", "\u{fffd}"]);
    });
}

#[test]
fn incomplete_lines_are_read_again_if_memory_is_short() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.configure(|config| config.pending_bytes_total_max = 10);
    for name in ["a.log", "b.log", "c.log"] {
        machine.append(name, b"one\nan incomplete ");
    }
    machine.run();
    machine.run();
    for name in ["a.log", "b.log", "c.log"] {
        machine.append(name, b"line\n");
    }
    machine.run();
    assert_eq!(machine.lines().iter().filter(|line| **line == "an incomplete line").count(), 3);
    assert_eq!(machine.lines().len(), 6);
}

#[test]
fn an_incomplete_line_is_delivered_once_more_when_it_waits() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.append("a.log", b"incomplete");
    machine.scan();
    machine.read();
    assert_eq!(machine.sink.waited_max, Duration::ZERO);
    machine.clock.advance(Duration::from_secs(5));
    machine.read();
    assert_eq!(machine.sink.waited_max, Duration::from_secs(5));
    assert_eq!(machine.tailer.active_files().count(), 1);
    machine.read();
    assert_eq!(machine.tailer.active_files().count(), 0);
    assert_eq!(machine.tailer.idle_files().count(), 1);
    let key = machine.tailer.idle_files().next().unwrap();
    machine.append("a.log", b" no more\n");
    machine.read();
    assert!(machine.lines().is_empty());
    machine.tailer.wake(key);
    machine.read();
    assert_eq!(machine.lines(), ["incomplete no more"]);
}

#[test]
fn what_is_no_file_is_skipped_and_counted() {
    let mut machine = LogMachine::real(&["*.log", "*.xz"]);
    machine.mkdir("dir.log");
    machine.append("packed.xz", b"x");
    let fifo = machine.path("fifo.log");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(machine.path("socket.log")).unwrap();
    machine.write("a.log", 2);
    machine.run();
    machine.check();
    let counters = machine.tailer.counters();
    assert_eq!((counters.skipped_not_regular, counters.skipped_unsupported), (3, 1));
    assert_eq!(machine.tailer.problems().count(), 4);
    // A pipe takes the place of a file that is being read.
    std::os::unix::fs::symlink(&fifo, machine.path("later.log")).unwrap();
    machine.run();
    assert_eq!(machine.tailer.counters().skipped_not_regular, 4);
}

#[test]
fn names_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut machine = LogMachine::real(&["*.log"]);
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe.log");
    let path = machine.path("").join(name);
    machine.env.fs.create(&path).unwrap().append(&[b"one\n"]).unwrap();
    machine.run();
    assert_eq!(machine.lines(), ["one"]);
    assert_eq!(machine.sink.delivered[0].0, path);
    machine.restart();
    machine.run();
    assert_eq!(machine.lines(), ["one"]);
}

#[test]
fn files_that_cannot_be_opened_or_read_are_tried_again() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.fs().forbid("a.log", true);
    machine.write("a.log", 3);
    machine.write("b.log", 3);
    machine.run();
    assert_eq!(machine.lines().len(), 3);
    assert_eq!(machine.tailer.problems().next().unwrap().0, Path::new("/l/a.log"));
    assert!(machine.tailer.counters().open_errors > 0);
    machine.fs().forbid("a.log", false);
    machine.fs().fail_reads_of("b.log", true);
    machine.write("b.log", 3);
    machine.run();
    assert_eq!(machine.lines().len(), 6);
    assert!(machine.tailer.counters().read_errors > 0);
    machine.fs().fail_reads_of("b.log", false);
    // While nothing can be listed, no file is gone.
    machine.fs().forbid("/l", true);
    machine.run();
    machine.fs().forbid("/l", false);
    machine.run();
    machine.check();
    assert_eq!(machine.tailer.problems().count(), 0);
    assert_eq!(machine.tailer.counters().files_detached, 0);
}

#[test]
fn descriptors_that_run_out_delay_files_only() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.fs().limit_handles(Some(2));
    for name in ["a.log", "b.log", "c.log", "d.log"] {
        machine.write(name, 2);
    }
    machine.fs().limit_handles(Some(2));
    machine.run();
    assert!(machine.lines().len() < 8);
    machine.fs().limit_handles(None);
    machine.run();
    machine.check();
}

#[test]
fn a_chunk_that_the_sink_refuses_comes_again() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.write("a.log", 3);
    machine.scan();
    machine.sink.is_failing = true;
    assert!(machine.read_once().is_err());
    machine.append("a.log", b"x");
    machine.write_from("a.log", machine.contents("a.log").len() - 1, b"");
    assert!(machine.read_once().is_err());
    machine.sink.is_failing = false;
    machine.run();
    machine.check();
}

#[test]
fn files_with_equal_beginnings_are_distinguished() {
    on_both(&["*.log"], |machine| {
        for name in ["app.log", "app-1.log", "app-2.log", "other.log"] {
            machine.append(name, b"# the same header\n");
        }
        machine.run();
        machine.written.extend(["# the same header".to_owned(), "# the same header".to_owned()]);
        for name in ["app.log", "app-1.log", "app-2.log", "other.log"] {
            machine.write(name, 2);
            machine.run();
        }
        machine.written.extend(["# the same header".to_owned(), "# the same header".to_owned()]);
        machine.run();
        machine.check();
    });
}

#[test]
fn a_copy_made_by_hand_is_no_rotation() {
    on_both(&["*.log*"], |machine| {
        machine.write("app.log", 30);
        machine.run();
        machine.copy("app.log", "app.log.1");
        machine.write("app.log", 3);
        machine.run();
        machine.check();
        // Under another name it is a file of its own.
        machine.copy("app.log", "copy.log");
        machine.run();
        assert_eq!(machine.lines().len(), 66);
        assert_eq!(machine.tailer.counters().files_detached, 0);
    });
}

#[test]
fn the_first_start_may_begin_at_the_end() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.configure(|config| config.read_from = ReadFrom::End);
    machine.append("a.log", b"old\nolder\nhalf ");
    machine.append("b.log", b"no line");
    machine.run();
    assert!(machine.lines().is_empty());
    machine.append("a.log", b"new\n");
    machine.append("c.log", b"whole\n");
    machine.run();
    machine.restart();
    machine.append("d.log", b"after\n");
    machine.run();
    assert_eq!(machine.lines(), ["half new", "whole", "after"]);
}

#[test]
fn reading_costs_nothing_for_idle_files() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    for number in 0..200 {
        machine.append(&format!("{number}.log"), b"one\n");
    }
    machine.run();
    assert_eq!(machine.tailer.active_files().count(), 0);
    // No file can be read, and none is.
    machine.fs().fail_reads_of("/l", true);
    machine.read();
    machine.scan();
    machine.read();
    assert_eq!(machine.tailer.counters().read_errors, 0);
    assert_eq!(machine.tailer.idle_files().count(), 200);
}

#[test]
fn the_number_of_an_empty_file_that_is_not_open_can_be_given_to_another_log() {
    let mut machine = LogMachine::simulated(&["*.log*"]);
    machine.fs().reuse_inode_numbers();
    machine.configure(|config| config.close_idle_after = Duration::from_secs(900));
    machine.append("a.log", b"");
    machine.write("b.log", 3);
    machine.run_long();
    let number = machine.env.fs.stat(&machine.path("a.log")).unwrap().identity;
    machine.remove("a.log");
    machine.rotate_into_number(number);
    machine.check_lines();
    assert!(machine.sink.delivered.iter().all(|(path, _)| path.ends_with("b.log")));
}

#[test]
fn excluded_files_are_not_read() {
    let mut machine = LogMachine::simulated(&["*.log"]);
    machine.configure(|config| config.excluded = vec![PathPattern::parse("b*").unwrap()]);
    machine.append("b.log", b"no\n");
    machine.write("a.log", 1);
    machine.run();
    machine.check();
}
