//! How much faster than the clock on the wall a simulated cluster of five nodes is, which do some ten things a second each:
//! `cargo run --release -p bucksaw-env --example world_speed`
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures, and says so")]

use std::time::{Duration, Instant};

use bucksaw_env::sim::World;
use bucksaw_env::{Body, run_blocking};

/// An hour of the cluster's life; each node sends four datagrams, makes a call and works on its disk once in each second,
/// and does what the other nodes ask of it.
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
                if let Ok(answer) = net.call(next, "echo", Body::whole("hello")).await {
                    let _ = answer.read_all(100).await;
                }
            }
        });
    }
    let begin = Instant::now();
    world.run_for(TIME);
    let took = begin.elapsed();
    let times = TIME.as_secs_f64() / took.as_secs_f64();
    println!("{TIME:?} in {took:?}: {times:.0} times as fast; fingerprint {:016x}", world.fingerprint());
}
