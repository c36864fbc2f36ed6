//! The simulated network: delivery, delays, faults and errors.
#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::sim::{Delay, Host, NetworkConditions, PowerCutLoss, World};
use bucksaw_env::{Body, BodyWriter, IncomingCall, Net, run_blocking, with_timeout};

const HOUR: Duration = Duration::from_secs(3_600);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

type Log<T> = Arc<Mutex<Vec<T>>>;

fn two(seed: u64) -> (World, Host, Host) {
    let world = World::new(seed);
    let (one, other) = (world.add_host("one"), world.add_host("other"));
    (world, one, other)
}

/// Records the datagrams that a host receives, as text.
fn listen(node: &Host) -> Log<String> {
    let (log, net) = (Log::default(), node.net());
    let inner = Arc::clone(&log);
    node.spawn(async move {
        loop {
            let (from, datagram) = net.receive().await;
            let text = String::from_utf8(datagram).unwrap();
            inner.lock().unwrap().push(format!("{}:{text}", from.ip()));
        }
    });
    log
}

/// Handles each call in a task.
fn serve<F: Future<Output = ()> + Send + 'static>(
    node: &Host,
    mut handle: impl FnMut(IncomingCall) -> F + Send + 'static,
) {
    let (net, tasks) = (node.net(), node.tasks());
    node.spawn(async move {
        loop {
            let call = net.accept().await;
            tasks.spawn(Box::pin(handle(call)));
        }
    });
}

/// Replies to each call with its body, and records it; a truncated body is recorded as "cut off" and gets no reply.
fn echo(node: &Host) -> Log<String> {
    let log: Log<String> = Log::default();
    let inner = Arc::clone(&log);
    serve(node, move |call| {
        let log = Arc::clone(&inner);
        async move {
            let read = call.body.read_all(1 << 30).await;
            let text = read.map_or_else(|_| "cut off".to_owned(), |bytes| String::from_utf8(bytes).unwrap());
            log.lock().unwrap().push(text.clone());
            if text != "cut off" {
                call.reply.send(Ok(Body::whole(text)));
            }
        }
    });
    log
}

/// Calls and reads the whole reply.
async fn ask(net: &Arc<dyn Net>, to: SocketAddr, body: &str) -> Result<String, ErrorKind> {
    let reply = async { net.call(to, "echo", Body::whole(body.to_owned())).await?.read_all(1 << 30).await };
    reply.await.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| error.kind())
}

/// Writes without end, and counts the sent pieces.
async fn write_endlessly(writer: BodyWriter, sent: Arc<Mutex<u64>>) {
    while writer.send(vec![7; 1_000]).await.is_ok() {
        *sent.lock().unwrap() += 1;
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    let run = |seed: u64| {
        let world = World::new(seed);
        let nodes: Vec<Host> = (0..4).map(|n| world.add_host(&format!("n{n}"))).collect();
        let late = Delay { tail_share: 0.05, tail_max: ms(5_000), ..NetworkConditions::HEALTHY.delay };
        let conditions = NetworkConditions {
            delay: late,
            loss: 0.1,
            duplication: 0.1,
            break_share: 0.1,
            stall_share: 0.05,
            ..NetworkConditions::HEALTHY
        };
        world.network().set_conditions(conditions);
        let mut logs = Vec::new();
        for (n, node) in nodes.iter().enumerate() {
            logs.extend([listen(node), echo(node)]);
            let (net, tasks, entropy) = (node.net(), node.tasks(), node.env().entropy);
            let peers: Vec<SocketAddr> = nodes.iter().map(Host::address).collect();
            node.spawn(async move {
                for round in 0..50 {
                    let peer = peers[(entropy.next_u64() % 4) as usize];
                    net.send(peer, format!("{n} {round}").into_bytes());
                    let _ = with_timeout(&tasks, ms(2_000), ask(&net, peer, &format!("{n} {round}"))).await;
                    run_blocking(&tasks, || ()).await;
                }
            });
        }
        world.run_for(ms(500));
        nodes[1].kill();
        nodes[2].pause();
        world.network().partition(&[&nodes[0]], &[&nodes[3]]);
        world.run_for(ms(2_000));
        nodes[1].restart();
        nodes[2].resume();
        world.network().heal_all();
        world.run_for(HOUR);
        let logs: Vec<Vec<String>> = logs.iter().map(|log| log.lock().unwrap().clone()).collect();
        assert!(logs.iter().map(Vec::len).sum::<usize>() > 100);
        (world.fingerprint(), logs)
    };
    let runs: Vec<_> = (0..20).map(run).collect();
    for (seed, first) in runs.iter().enumerate() {
        assert_eq!(*first, run(seed as u64), "seed {seed}");
    }
    assert_eq!(runs.iter().map(|run| run.0).collect::<BTreeSet<u64>>().len(), 20);
}

#[test]
fn datagrams_are_lost_duplicated_and_reordered_at_the_configured_rates() {
    let count = |conditions: NetworkConditions| {
        let (world, one, other) = two(3);
        world.network().set_conditions_between(&one, &other, conditions);
        let log = listen(&other);
        let net = one.net();
        for n in 0..2_000 {
            net.send(other.address(), format!("{n:04}").into_bytes());
            world.run_for(ms(1));
        }
        world.run_for(HOUR);
        let log = log.lock().unwrap().clone();
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for text in &log {
            *counts.entry(text).or_default() += 1;
        }
        let doubled = counts.values().filter(|count| **count == 2).count();
        assert!(counts.values().all(|count| *count <= 2));
        (counts.len(), doubled, log.is_sorted())
    };
    assert_eq!(
        count(NetworkConditions { delay: Delay::uniform(ms(1), ms(1)), ..NetworkConditions::HEALTHY }),
        (2_000, 0, true)
    );
    let (arrived, doubled, _) = count(NetworkConditions { loss: 0.25, ..NetworkConditions::HEALTHY });
    assert!((1_420..1_580).contains(&arrived) && doubled == 0, "{arrived}");
    let (arrived, doubled, _) = count(NetworkConditions { duplication: 0.25, ..NetworkConditions::HEALTHY });
    assert!(arrived == 2_000 && (420..580).contains(&doubled), "{doubled}");
    assert_eq!(
        count(NetworkConditions { delay: Delay::uniform(ms(1), ms(9)), ..NetworkConditions::HEALTHY }),
        (2_000, 0, false)
    );
    assert_eq!(count(NetworkConditions { loss: 1.0, ..NetworkConditions::HEALTHY }).0, 0);
}

#[test]
#[should_panic(expected = "a datagram of 1351 bytes")]
fn too_long_a_datagram_is_a_bug() {
    let (_world, one, other) = two(1);
    one.net().send(other.address(), vec![0; 1_351]);
}

#[test]
fn a_cut_is_one_way() {
    let (world, one, other) = two(1);
    let (at_one, at_other) = (listen(&one), listen(&other));
    let talk = |text: &str| {
        one.net().send(other.address(), text.into());
        other.net().send(one.address(), text.into());
        world.run_for(ms(10));
    };
    let logs = || (at_one.lock().unwrap().join(" "), at_other.lock().unwrap().join(" "));
    world.network().cut(&[&one], &[&other]);
    talk("a");
    assert_eq!(logs(), ("10.0.0.2:a".into(), String::new()));
    world.network().heal(&[&one], &[&other]);
    talk("b");
    assert_eq!(logs(), ("10.0.0.2:a 10.0.0.2:b".into(), "10.0.0.1:b".into()));
    world.network().partition(&[&one], &[&other]);
    talk("c");
    world.network().heal_all();
    talk("d");
    assert_eq!(logs(), ("10.0.0.2:a 10.0.0.2:b 10.0.0.2:d".into(), "10.0.0.1:b 10.0.0.1:d".into()));
    // Datagrams in flight are lost, too.
    one.net().send(other.address(), "e".into());
    world.network().cut(&[&one], &[&other]);
    world.run_for(HOUR);
    assert!(!logs().1.contains('e'));
    // The loopback is never cut.
    world.network().partition(&[&one, &other], &[&one, &other]);
    one.net().send(one.address(), "f".into());
    world.run_for(ms(10));
    assert!(logs().0.ends_with("10.0.0.1:f"));
}

#[test]
fn a_clogged_link_delays_and_loses_nothing() {
    let (world, one, other) = two(1);
    let (log, served) = (listen(&other), echo(&other));
    world.network().clog(&[&one], &[&other], HOUR);
    one.net().send(other.address(), "a".into());
    let net = one.net();
    world.run_for(HOUR - ms(1));
    assert!(log.lock().unwrap().is_empty());
    assert_eq!(world.block_on(ask(&net, other.address(), "b")), Ok("b".into()));
    assert_eq!((log.lock().unwrap().len(), served.lock().unwrap().len()), (1, 1));
}

#[test]
fn a_paused_host_buffers_input_up_to_its_limits() {
    let (world, one, other) = two(1);
    let (log, served) = (listen(&other), echo(&other));
    other.pause();
    for n in 0..1_000 {
        one.net().send(other.address(), format!("{n}").into_bytes());
    }
    let (net, tasks) = (one.net(), one.tasks());
    let asked = with_timeout(&tasks, ms(5_000), ask(&net, other.address(), "given up"));
    assert_eq!(world.block_on(asked), None);
    let asked = net.call(other.address(), "echo", Body::whole("waits"));
    world.run_for(ms(5_000));
    assert!(log.lock().unwrap().is_empty() && served.lock().unwrap().is_empty());
    other.resume();
    assert!(world.block_on(asked).is_ok());
    world.run_for(ms(5_000));
    assert_eq!(log.lock().unwrap().len(), 256);
    let mut served = served.lock().unwrap().clone();
    served.sort();
    assert_eq!(served, ["given up", "waits"]);
}

#[test]
fn host_names_resolve_to_addresses() {
    let (world, one, other) = two(1);
    world.network().register_host_name("all", &[&one, &other]);
    let resolve = |host: &str| world.block_on(one.net().resolve(host));
    assert_eq!(resolve("other:7659").unwrap(), [other.address()]);
    assert_eq!(resolve("all:7659").unwrap(), [one.address(), other.address()]);
    assert_eq!(resolve("10.0.0.2:7659").unwrap(), [other.address()]);
    assert_eq!(resolve("unknown:7659").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(resolve("other").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(other.address().to_string(), "10.0.0.2:7659");
}

#[test]
fn bodies_arrive_whole_and_in_order_in_other_pieces() {
    let mut counts = BTreeSet::new();
    for seed in 0..50 {
        let (world, one, other) = two(seed);
        let late = Delay { tail_share: 0.2, tail_max: ms(1_000), ..NetworkConditions::HEALTHY.delay };
        world.network().set_conditions(NetworkConditions { delay: late, loss: 0.2, ..NetworkConditions::HEALTHY });
        echo(&other);
        let (writer, body) = Body::channel();
        let sent: Vec<String> = (0..200).map(|n| format!("{n:>9}")).collect();
        let pieces = sent.clone();
        one.spawn(async move {
            for piece in pieces {
                writer.send(piece).await.unwrap();
            }
            writer.end().await.unwrap();
        });
        let called = one.net().call(other.address(), "echo", body);
        let answer = world.block_on(async {
            let (mut answer, mut pieces) = (called.await.unwrap(), Vec::new());
            while let Some(piece) = answer.next().await {
                pieces.push(piece.unwrap());
            }
            pieces
        });
        assert_eq!(answer.concat(), sent.concat().into_bytes(), "seed {seed}");
        counts.insert(answer.len());
    }
    assert!(counts.len() > 2 && counts.contains(&1), "{counts:?}");
}

#[test]
fn a_call_takes_the_time_that_its_bytes_take() {
    for bytes in [1_000_000, 5_000_000] {
        let (world, one, other) = two(1);
        let slow = NetworkConditions { bytes_per_second: 1_000_000, ..NetworkConditions::HEALTHY };
        world.network().set_conditions_between(&one, &other, slow);
        let served = echo(&other);
        let net = one.net();
        assert!(world.block_on(ask(&net, other.address(), &"x".repeat(bytes))).is_ok());
        assert_eq!(served.lock().unwrap()[0].len(), bytes);
        let (min, max) = (Duration::from_micros(bytes as u64), Duration::from_micros(bytes as u64 * 11 / 10));
        assert!((min..max).contains(&world.now()), "{:?}", world.now());
    }
}

#[test]
fn errors_carry_their_message() {
    let (world, one, other) = two(1);
    serve(&other, async |call: IncomingCall| match call.name.as_str() {
        "unknown" => call.reply.send(Err(ErrorKind::Unsupported.into())),
        "refused" => call.reply.send(Err(std::io::Error::new(ErrorKind::StorageFull, "no room for it"))),
        _ => drop(call.reply),
    });
    let check = |name: &str, kind: ErrorKind, message: &str| {
        let error = world.block_on(one.net().call(other.address(), name, Body::empty())).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(message), "{error:?}");
    };
    check("unknown", ErrorKind::Unsupported, "");
    check("refused", ErrorKind::Other, "no room for it");
    check("dropped", ErrorKind::Other, "not answered");
    other.kill();
    check("unknown", ErrorKind::ConnectionRefused, "");
    other.restart();
    other.cut_power(PowerCutLoss::All);
    check("unknown", ErrorKind::HostUnreachable, "");
    let nowhere = one.net().call("10.9.9.9:7659".parse().unwrap(), "a", Body::empty());
    assert_eq!(world.block_on(nowhere).unwrap_err().kind(), ErrorKind::HostUnreachable);
    other.restart();
    let wrong_port = one.net().call("10.0.0.2:1".parse().unwrap(), "a", Body::empty());
    assert_eq!(world.block_on(wrong_port).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    world.network().cut(&[&other], &[&one]);
    check("unknown", ErrorKind::TimedOut, "");
}

#[test]
fn calls_break_at_every_stage() {
    let mut seen: BTreeSet<(&str, Result<String, ErrorKind>)> = BTreeSet::new();
    for seed in 0..500 {
        let (world, one, other) = two(seed);
        let conditions = NetworkConditions { break_share: 1.0, ..NetworkConditions::HEALTHY };
        let link = if seed % 2 == 0 { (&one, &other) } else { (&other, &one) };
        world.network().set_conditions_between(link.0, link.1, conditions);
        let served = echo(&other);
        let net = one.net();
        let asked = world.block_on(ask(&net, other.address(), "x"));
        world.run_for(HOUR);
        let served = served.lock().unwrap().clone();
        let served = match served.as_slice() {
            [] => "nothing",
            [text] if text == "x" => "done",
            [text] if text == "cut off" => "cut off",
            _ => panic!("{served:?}"),
        };
        seen.insert((served, asked));
    }
    let want = [
        ("nothing", Err(ErrorKind::ConnectionReset)),
        ("cut off", Err(ErrorKind::ConnectionReset)),
        ("done", Err(ErrorKind::ConnectionReset)),
        ("done", Err(ErrorKind::UnexpectedEof)),
    ];
    assert_eq!(seen, want.into());
}

#[test]
fn calls_stall_and_go_on() {
    let (mut slow, mut done) = (0, 0);
    for seed in 0..100 {
        let (world, one, other) = two(seed);
        let stall = Delay::uniform(ms(10_000), ms(20_000));
        world.network().set_conditions_between(
            &one,
            &other,
            NetworkConditions { stall_share: 0.5, stall_time: stall, ..NetworkConditions::HEALTHY },
        );
        echo(&other);
        let net = one.net();
        assert_eq!(world.block_on(ask(&net, other.address(), "x")), Ok("x".into()));
        slow += u32::from((ms(10_000)..ms(21_000)).contains(&world.now()));
        done += u32::from(world.now() < ms(100));
    }
    assert!(slow + done == 100 && (30..70).contains(&slow), "{slow} {done}");
}

#[test]
fn a_writer_waits_for_the_reader() {
    let (world, one, other) = two(1);
    // Neither the request nor the reply is read.
    let (held, answered): (Log<Body>, Arc<Mutex<u64>>) = Default::default();
    let (holding, answering) = (Arc::clone(&held), Arc::clone(&answered));
    serve(&other, move |call| {
        holding.lock().unwrap().push(call.body);
        let (writer, body) = Body::channel();
        call.reply.send(Ok(body));
        write_endlessly(writer, Arc::clone(&answering))
    });
    let (writer, body) = Body::channel();
    let called = one.net().call(other.address(), "pour", body);
    let asked = Arc::new(Mutex::new(0));
    one.spawn(write_endlessly(writer, Arc::clone(&asked)));
    let mut answer = world.block_on(called).unwrap();
    world.run_for(HOUR);
    let counts = || (*asked.lock().unwrap(), *answered.lock().unwrap());
    let (to, back) = counts();
    assert!((8..=20).contains(&to) && (8..=20).contains(&back), "{to} {back}");
    world.block_on(async {
        for _ in 0..100 {
            answer.next().await.unwrap().unwrap();
        }
    });
    world.run_for(HOUR);
    assert!(counts().0 == to && counts().1 > back + 50, "{:?}", counts());
    // A dropped reader closes the body of its direction only.
    held.lock().unwrap().clear();
    world.run_for(HOUR);
    let writers = || (Arc::strong_count(&asked), Arc::strong_count(&answered));
    assert_eq!(writers(), (1, 3), "the request is no longer written, the answer is");
    drop(answer);
    world.run_for(HOUR);
    assert_eq!(writers(), (1, 2));
}

#[test]
fn the_callee_detects_a_cancelled_call() {
    let (world, one, other) = two(1);
    let ended: Log<Duration> = Log::default();
    let inner = Arc::clone(&ended);
    let clock = other.env().clock;
    serve(&other, move |call| {
        let (ended, clock) = (Arc::clone(&inner), Arc::clone(&clock));
        async move {
            let IncomingCall { mut body, reply: _reply, .. } = call;
            while let Some(Ok(_)) = body.next().await {}
            ended.lock().unwrap().push(clock.uptime());
        }
    });
    let (_writer, body) = Body::channel();
    let (net, tasks, to) = (one.net(), one.tasks(), other.address());
    let asked = with_timeout(&tasks, ms(100), async move { net.call(to, "wait", body).await.map(drop) });
    assert!(world.block_on(asked).is_none());
    world.run_for(ms(10));
    assert_eq!(ended.lock().unwrap().len(), 1);
}

#[test]
fn the_peer_detects_a_crash() {
    // The time until the surviving side detects the crash.
    let detection = |caller_dies: bool, die: &dyn Fn(&Host), then: &dyn Fn(&World, &Host)| {
        let (world, one, other) = two(1);
        let ended: Log<Duration> = Log::default();
        let (at_callee, callee_clock) = (Arc::clone(&ended), other.env().clock);
        serve(&other, move |call| {
            let (ended, clock) = (Arc::clone(&at_callee), Arc::clone(&callee_clock));
            async move {
                let IncomingCall { mut body, reply: _reply, .. } = call;
                while let Some(Ok(_)) = body.next().await {}
                ended.lock().unwrap().push(clock.uptime());
            }
        });
        let (writer, body) = Body::channel();
        let (net, to) = (one.net(), other.address());
        let (at_caller, clock) = (Arc::clone(&ended), one.env().clock);
        one.spawn(async move {
            let answer = net.call(to, "wait", body).await;
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::ConnectionReset);
            at_caller.lock().unwrap().push(clock.uptime());
            drop(writer);
        });
        world.run_for(ms(1_000));
        let dead = if caller_dies { &one } else { &other };
        die(dead);
        then(&world, dead);
        world.run_for(HOUR);
        let ended = ended.lock().unwrap();
        assert_eq!(ended.len(), 1);
        ended[0] - ms(1_000)
    };
    for caller_dies in [false, true] {
        let took = detection(caller_dies, &Host::kill, &|_, _| ());
        assert!(took < ms(5), "{took:?}");
        let power = |node: &Host| node.cut_power(PowerCutLoss::All);
        let took = detection(caller_dies, &power, &|_, _| ());
        assert!((ms(60_000)..ms(60_005)).contains(&took), "{took:?}");
        let back = |world: &World, node: &Host| {
            world.run_for(ms(10_000));
            node.restart();
        };
        let took = detection(caller_dies, &power, &back);
        assert!((ms(10_000)..ms(10_005)).contains(&took), "{took:?}");
    }
}

#[test]
fn a_cut_call_continues_when_the_link_is_healed() {
    let (world, one, other) = two(1);
    let (writer, body) = Body::channel();
    let served = echo(&other);
    let called = one.net().call(other.address(), "echo", body);
    one.spawn(async move {
        for _ in 0..1_000 {
            writer.send("x").await.unwrap();
        }
        writer.end().await.unwrap();
    });
    world.run_for(ms(5));
    // Cuts only the direction of the receipts.
    world.network().cut(&[&other], &[&one]);
    world.run_for(HOUR);
    assert!(served.lock().unwrap().is_empty());
    world.network().heal_all();
    let answer = world.block_on(async { called.await.unwrap().read_all(1_000).await });
    assert_eq!(answer.unwrap().len(), 1_000);
}

#[test]
fn waiting_calls_are_bounded() {
    let (world, one, other) = two(1);
    let net = one.net();
    let mut calls: Vec<_> = (0..200).map(|_| net.call(other.address(), "x", Body::empty())).collect();
    world.run_for(ms(10_000));
    let accepting = other.net();
    let accepted = async {
        let tasks = other.tasks();
        let mut accepted = Vec::new();
        while let Some(call) = with_timeout(&tasks, ms(1), accepting.accept()).await {
            accepted.push(call);
        }
        accepted
    };
    let accepted = world.block_on(accepted);
    assert_eq!(accepted.len(), 128);
    drop(accepted);
    let last = calls.pop().unwrap();
    serve(&other, async |call: IncomingCall| call.reply.send(Ok(Body::empty())));
    drop(calls);
    // Calls that found no room are retried.
    let _ = world.block_on(last);
}
