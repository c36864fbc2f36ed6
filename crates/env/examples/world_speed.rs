//! Measures the speed of a simulated cluster of five hosts against real time:
//! `cargo run --release -p bucksaw-env --example world_speed`
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "measures real time and prints it")]

use std::time::{Duration, Instant};

use bucksaw_env::sim::World;
use bucksaw_env::{Body, run_blocking};

/// Simulated time. Each second, each host sends four datagrams, makes a call and runs blocking work.
const TIME: Duration = Duration::from_secs(3_600);

fn main() {
    let world = World::new(1);
    let nodes: Vec<_> = (0..5).map(|n| world.add_host(&format!("n{n}"))).collect();
    for (n, node) in nodes.iter().enumerate() {
        let net = node.net();
        node.spawn(async move {
            loop {
                net.receive().await;
            }
        });
        let net = node.net();
        node.spawn(async move {
            loop {
                let call = net.accept().await;
                call.reply.send(Ok(call.body));
            }
        });
        let (net, tasks, next) = (node.net(), node.tasks(), nodes[(n + 1) % 5].address());
        node.spawn(async move {
            loop {
                for _ in 0..4 {
                    net.send(next, vec![0; 100]);
                    tasks.sleep(Duration::from_millis(250)).await;
                }
                run_blocking(&tasks, || ()).await;
                if let Ok(reply) = net.call(next, "echo", Body::whole("hello")).await {
                    let _ = reply.read_all(100).await;
                }
            }
        });
    }
    let started = Instant::now();
    world.run_for(TIME);
    let elapsed = started.elapsed();
    let times = TIME.as_secs_f64() / elapsed.as_secs_f64();
    println!("{TIME:?} in {elapsed:?}: {times:.0} times as fast; run hash {:016x}", world.fingerprint());
}
