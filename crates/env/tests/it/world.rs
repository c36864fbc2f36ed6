//! The simulated world: time, tasks and hosts.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::sim::{Delay, PowerCutLoss, SyncDuration, World};
use bucksaw_env::{Tasks, run_blocking, with_timeout};
use tokio::sync::{Semaphore, mpsc, watch};

const HOUR: Duration = Duration::from_secs(3_600);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A counter shared by tasks and the test.
#[derive(Clone, Default)]
struct SharedCount(Arc<AtomicU64>);

impl SharedCount {
    fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Adds its number when it is dropped.
struct AddOnDrop(SharedCount, u64);

impl Drop for AddOnDrop {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

/// Spawns a task when it is dropped.
struct SpawnOnDrop(Arc<dyn Tasks>, Option<AddOnDrop>);

impl Drop for SpawnOnDrop {
    fn drop(&mut self) {
        let guard = self.1.take();
        self.0.spawn(Box::pin(async move { drop(guard) }));
    }
}

#[test]
fn time_jumps_from_event_to_event() {
    let world = World::new(1);
    let node = world.add_host("a");
    let (env, tasks) = (node.env(), node.tasks());
    let begin = env.clock.unix_ms();
    world.block_on(tasks.sleep(ms(1_500)));
    assert_eq!((world.now(), env.clock.uptime(), env.clock.unix_ms()), (ms(1_500), ms(1_500), begin + 1_500));
    world.run_for(HOUR * 24 * 365);
    assert_eq!(world.now(), ms(1_500) + HOUR * 24 * 365);
    node.jump_clock(-500);
    assert_eq!((env.clock.uptime(), env.clock.unix_ms()), (world.now(), begin + 1_000 + 365 * 86_400_000));
    assert_eq!(world.add_host("b").env().clock.unix_ms(), env.clock.unix_ms() + 500);
}

#[test]
fn sleepers_wake_in_order_of_time() {
    for seed in 0..50 {
        let world = World::new(seed);
        let woken = Arc::new(Mutex::new(Vec::new()));
        for n in [5, 1, 4, 2, 3] {
            let (tasks, woken) = (world.tasks(), Arc::clone(&woken));
            world.tasks().spawn(Box::pin(async move {
                tasks.sleep(ms(n)).await;
                woken.lock().unwrap().push(n);
            }));
        }
        world.run_for(ms(3));
        assert_eq!(*woken.lock().unwrap(), [1, 2, 3]);
        world.run_for(ms(3));
        assert_eq!(*woken.lock().unwrap(), [1, 2, 3, 4, 5]);
    }
}

#[test]
fn the_seed_chooses_among_ready_tasks() {
    let order = |seed: u64| {
        let world = World::new(seed);
        let ran = Arc::new(Mutex::new(Vec::new()));
        for n in 0..4 {
            let ran = Arc::clone(&ran);
            world.spawn(async move { ran.lock().unwrap().push(n) });
        }
        world.run_for(ms(0));
        ran.lock().unwrap().clone()
    };
    assert_eq!(order(7), order(7));
    let orders: BTreeSet<Vec<i32>> = (0..1_000).map(order).collect();
    assert_eq!(orders.len(), 24);
}

#[test]
fn sync_primitives_work_and_wake_order_has_no_effect() {
    // A watch wakes its readers in random order.
    let order = || {
        let world = World::new(5);
        let ran = Arc::new(Mutex::new(Vec::new()));
        let (sender, receiver) = watch::channel(0);
        let room = Arc::new(Semaphore::new(3));
        for n in 0..20 {
            let (mut receiver, ran, room, tasks) =
                (receiver.clone(), Arc::clone(&ran), Arc::clone(&room), world.tasks());
            world.tasks().spawn(Box::pin(async move {
                while receiver.changed().await.is_ok() {
                    let _room = room.acquire().await.unwrap();
                    tasks.sleep(ms(1)).await;
                    ran.lock().unwrap().push(n);
                }
            }));
        }
        for n in 1..10 {
            world.run_for(ms(20));
            sender.send_replace(n);
        }
        world.run_for(ms(20));
        (ran.lock().unwrap().clone(), world.fingerprint())
    };
    let (ran, fingerprint) = order();
    assert_eq!(ran.len(), 9 * 20);
    for _ in 0..20 {
        assert_eq!(order(), (ran.clone(), fingerprint));
    }
}

#[test]
fn timeouts_fire_and_leave_no_timer() {
    let world = World::new(1);
    let tasks = world.tasks();
    let never = with_timeout(&tasks, ms(10), std::future::pending::<()>());
    assert_eq!((world.block_on(never), world.now()), (None, ms(10)));
    assert_eq!(world.block_on(with_timeout(&tasks, HOUR, async { 7 })), Some(7));
    let fingerprint = world.fingerprint();
    world.run_for(HOUR * 2);
    assert_eq!(world.fingerprint(), fingerprint, "the timer of a dropped timeout fired");
}

#[test]
fn run_until_stops_when_the_condition_holds() {
    let world = World::new(1);
    let (count, tasks) = (SharedCount::default(), world.tasks());
    let counting = count.clone();
    world.tasks().spawn(Box::pin(async move {
        loop {
            tasks.sleep(ms(100)).await;
            counting.add(1);
        }
    }));
    assert!(world.run_until(|| count.get() == 3, HOUR));
    assert_eq!(world.now(), ms(300));
    assert!(!world.run_until(|| count.get() == 100, ms(50)));
    assert_eq!(world.now(), ms(350));
}

#[test]
fn blocking_work_takes_its_delay_and_runs_once() {
    let world = World::new(1);
    let node = world.add_host("a");
    node.set_blocking_delay(Delay::uniform(ms(100), ms(200)));
    let (count, counting) = (SharedCount::default(), SharedCount::default());
    let inner = count.clone();
    let tasks = node.tasks();
    let done = world.block_on(run_blocking(&tasks, move || {
        inner.add(1);
        7
    }));
    assert_eq!((done, count.get()), (Some(7), 1));
    assert!((ms(100)..=ms(200)).contains(&world.now()), "{:?}", world.now());
    // It also runs if its future is dropped.
    let inner = counting.clone();
    drop(tasks.spawn_blocking(Box::new(move || inner.add(1))));
    assert_eq!(counting.get(), 0);
    world.run_for(ms(200));
    assert_eq!(counting.get(), 1);
}

#[test]
fn syncs_delay_their_blocking_work_and_what_it_wakes() {
    let world = World::new(1);
    let host = world.add_host("node");
    host.set_blocking_delay(Delay::uniform(ms(0), ms(0)));
    let time = SyncDuration { mean: ms(5), seconds_per_byte: 0.001, variation: 0.0 };
    let (env, tasks) = (host.env(), host.tasks());
    let file = env.fs.create(Path::new("/log")).unwrap();
    let append_and_sync = |bytes: usize| {
        let file = Arc::clone(&file);
        move || {
            file.append(&[&vec![0; bytes]]).unwrap();
            file.sync().unwrap();
        }
    };
    world.block_on(run_blocking(&tasks, append_and_sync(10)));
    assert_eq!(world.now(), ms(0), "no time by default");
    host.fs().set_sync_duration(Some(time), 1);
    append_and_sync(10)();
    world.block_on(run_blocking(&tasks, append_and_sync(20)));
    assert_eq!(world.now(), ms(25), "the sync outside of blocking work took no time");

    let (woken, waiting) = tokio::sync::oneshot::channel();
    let (work, fs) = (append_and_sync(10), Arc::clone(&env.fs));
    drop(tasks.spawn_blocking(Box::new(move || {
        work();
        woken.send(()).unwrap();
        fs.sync_dir(Path::new("/")).unwrap();
    })));
    world.block_on(waiting).unwrap();
    assert_eq!(world.now(), ms(25 + 15 + 5));

    host.kill();
    host.restart();
    let file = host.env().fs.create(Path::new("/other")).unwrap();
    world.block_on(run_blocking(&host.tasks(), move || file.sync().unwrap()));
    assert_eq!(world.now(), ms(50), "a kill keeps the times");
}

#[test]
fn a_kill_comes_before_or_after_blocking_work_and_hides_its_result() {
    let mut done = 0;
    for seed in 0..200 {
        let world = World::new(seed);
        let node = world.add_host("a");
        node.set_blocking_delay(Delay::uniform(ms(100), ms(100)));
        let (worked, returned) = (SharedCount::default(), SharedCount::default());
        let (tasks, inner, returning) = (node.tasks(), worked.clone(), returned.clone());
        node.spawn(async move {
            run_blocking(&tasks, move || inner.add(1)).await;
            returning.add(1);
        });
        world.run_for(ms(50));
        node.kill();
        world.run_for(HOUR);
        assert_eq!(returned.get(), 0);
        done += worked.get();
    }
    assert!((60..140).contains(&done), "{done}");
}

#[test]
fn a_kill_drops_all_tasks_of_its_host_only() {
    let world = World::new(1);
    let (one, other) = (world.add_host("one"), world.add_host("other"));
    let dropped = SharedCount::default();
    for (node, n) in [(&one, 1), (&one, 10), (&other, 100)] {
        let (guard, tasks) = (AddOnDrop(dropped.clone(), n), node.tasks());
        node.spawn(async move {
            tasks.sleep(HOUR).await;
            drop(guard);
        });
    }
    // A task that is spawned while another one is dropped.
    let (guard, tasks) = (AddOnDrop(dropped.clone(), 1_000), one.tasks());
    world.run_for(ms(1));
    let spawner = SpawnOnDrop(tasks, Some(guard));
    one.spawn(async move { drop(spawner) });
    one.kill();
    assert_eq!(dropped.get(), 1_011);
    assert!(!one.is_up() && other.is_up());
    // Tasks of the old process have no effect after the restart.
    let (tasks, late) = (one.tasks(), AddOnDrop(dropped.clone(), 10_000));
    one.restart();
    tasks.spawn(Box::pin(async move { drop(late) }));
    assert_eq!(dropped.get(), 11_011);
    assert_eq!(world.block_on_host(&one, async { 7 }), Some(7));
    drop(world);
    assert_eq!(dropped.get(), 11_111);
}

#[test]
fn a_task_may_kill_its_own_host() {
    let world = World::new(1);
    let node = world.add_host("a");
    let (host, tasks) = (node.clone(), node.tasks());
    let done = world.block_on_host(&node, async move {
        host.kill();
        tasks.sleep(ms(1)).await;
    });
    assert_eq!((done, node.is_up()), (None, false));
}

#[test]
fn a_killed_process_leaves_unsynced_bytes() {
    let world = World::new(1);
    let node = world.add_host("a");
    let path = Path::new("/f");
    let old = node.env().fs;
    let file = old.create(path).unwrap();
    old.sync_dir(Path::new("/")).unwrap();
    file.append(&[b"kept"]).unwrap();
    file.sync().unwrap();
    file.append(&[b", written"]).unwrap();
    let lock = old.lock(Path::new("/lock")).unwrap();
    node.kill();
    assert!(file.append(&[b" too late"]).is_err() && old.remove(path).is_err());
    node.restart();
    let fs = node.env().fs;
    assert!(fs.lock(Path::new("/lock")).is_ok(), "the killed process still has the lock");
    drop(lock);
    assert_eq!(node.fs().live_bytes(path).as_deref(), Some(&b"kept, written"[..]));
    node.cut_power(PowerCutLoss::All);
    assert_eq!(node.fs().live_bytes(path).as_deref(), Some(&b"kept"[..]));
}

#[test]
fn each_process_has_its_own_uptime_and_random_numbers() {
    let world = World::new(1);
    let node = world.add_host("a");
    world.run_for(HOUR);
    let before = node.env();
    let stopped_at_ms = before.clock.unix_ms();
    node.cut_power(PowerCutLoss::Torn);
    world.run_for(HOUR);
    node.restart();
    world.run_for(ms(5));
    let after = node.env();
    assert_eq!(after.clock.uptime(), ms(5));
    assert_eq!(after.clock.unix_ms(), stopped_at_ms + 3_600_005);
    assert_ne!(after.entropy.next_u64(), before.entropy.next_u64());
}

#[test]
fn a_pause_stops_tasks_and_blocking_work_but_not_the_time() {
    let world = World::new(1);
    let node = world.add_host("a");
    node.set_blocking_delay(Delay::uniform(ms(10), ms(10)));
    let (ticks, work) = (SharedCount::default(), SharedCount::default());
    let (tasks, counting) = (node.tasks(), ticks.clone());
    node.spawn(async move {
        loop {
            tasks.sleep(ms(100)).await;
            counting.add(1);
        }
    });
    world.run_for(ms(550));
    assert_eq!(ticks.get(), 5);
    node.pause();
    let inner = work.clone();
    drop(node.tasks().spawn_blocking(Box::new(move || inner.add(1))));
    world.run_for(HOUR);
    assert_eq!((ticks.get(), work.get()), (5, 0));
    node.resume();
    world.run_for(ms(50));
    assert_eq!((ticks.get(), work.get()), (6, 1));
    assert_eq!(node.env().clock.uptime(), world.now());
    // A kill ends the pause.
    node.pause();
    node.kill();
    node.restart();
    assert!(!node.is_paused());
    assert_eq!(world.block_on_host(&node, async { 7 }), Some(7));
}

#[test]
fn panics_name_the_seed() {
    let message = |run: &dyn Fn(&World)| {
        let world = World::new(4_711);
        let panic = catch_unwind(AssertUnwindSafe(|| run(&world))).unwrap_err();
        panic.downcast_ref::<String>().cloned().unwrap()
    };
    let check = |run: &dyn Fn(&World), what: &str| {
        let message = message(run);
        assert!(message.contains("4711") && message.contains("1ms") && message.contains(what), "{message}");
    };
    let in_task = |world: &World| {
        let tasks = world.tasks();
        world.tasks().spawn(Box::pin(async move {
            tasks.sleep(ms(1)).await;
            panic!("in task {}", 7);
        }));
        world.run_for(HOUR);
    };
    check(&in_task, "in task 7");
    let in_work = |world: &World| {
        let node = world.add_host("a");
        node.set_blocking_delay(Delay::uniform(ms(2), ms(2)));
        drop(node.tasks().spawn_blocking(Box::new(|| panic!("in work"))));
        world.run_for(HOUR);
    };
    assert!(message(&in_work).contains("4711"));
    let in_block_on = |world: &World| {
        let tasks = world.tasks();
        world.block_on(async move {
            tasks.sleep(ms(1)).await;
            panic!("in block_on")
        });
    };
    check(&in_block_on, "in block_on");
    let busy_loop = |world: &World| {
        world.run_for(ms(1));
        world.block_on(async {
            let (sender, mut receiver) = mpsc::channel(1);
            loop {
                world.tasks().sleep(ms(0)).await;
                sender.send(()).await.unwrap();
                receiver.recv().await.unwrap();
            }
        });
    };
    check(&busy_loop, "time does not advance");
    assert!(message(&|world| world.block_on(std::future::pending())).contains("an hour"));
}
