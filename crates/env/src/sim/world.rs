//! Hosts, network and time, simulated in one thread under one seed.
//!
//! The seed chooses the next task among those that are ready. If none is, the time jumps to the next timer, so idle hours cost
//! nothing. The same seed and the same program give the same run, event for event, which [`World::fingerprint`] shows.
//!
//! Rules for code in a world: it waits only by the environment and `tokio::sync`. It uses no threads, no
//! `tokio::{time, net, spawn}` and no `tokio::select!` without `biased`, and does not depend on the order in which the futures
//! of *one* task are woken (as `FuturesUnordered` over a `watch` does).
//!
//! ```
//! use bucksaw_env::{Body, sim};
//!
//! let world = sim::World::new(1);
//! let (one, other) = (world.add_host("one"), world.add_host("other"));
//! let net = other.net();
//! other.spawn(async move {
//!     loop {
//!         let call = net.accept().await;
//!         call.reply.send(Ok(call.body));
//!     }
//! });
//! let call = one.net().call(other.address(), "echo", Body::whole("hello"));
//! let reply = world.block_on(async { call.await?.read_all(100).await })?;
//! assert_eq!(reply, b"hello");
//!
//! world.network().cut(&[&one], &[&other]);
//! let call = one.net().call(other.address(), "echo", Body::empty());
//! assert_eq!(world.block_on(call).unwrap_err().kind(), std::io::ErrorKind::TimedOut);
//! assert_eq!(world.now().as_secs(), 127);
//! # Ok::<(), std::io::Error>(())
//! ```

mod call_fault;
mod connection;
mod executor;
mod host;
mod host_state;
mod link_table;
mod net;
mod network;
mod network_conditions;
mod process_id;
mod ready_queue;
mod run_hash;
mod tasks;
mod timers;

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::sim::Clock;
use crate::{Entropy as _, to_millis};
use executor::Executor;
pub use host::Host;
use host_state::HostState;
pub use network::Network;
pub use network_conditions::{Delay, NetworkConditions};

/// The wall clock at the start of a world: the beginning of 2026.
const START_UNIX_MS: u64 = 1_767_225_600_000;

/// The port of every host.
const PORT: u16 = 7659;

/// Limit of [`World::block_on`] in simulated time.
const BLOCK_ON_TIMEOUT: Duration = Duration::from_secs(3_600);

/// A simulated world. Dropping it drops all tasks.
///
/// # Panics
/// Methods that advance the time panic, with the seed in the message, if a task or blocking work panics.
#[derive(Debug)]
pub struct World {
    executor: Arc<Executor>,
}

impl World {
    /// A world without hosts.
    pub fn new(seed: u64) -> Self {
        Self { executor: Executor::new(seed) }
    }

    /// Adds a host with an empty disk and no tasks, reachable at `name:7659`.
    #[must_use]
    pub fn add_host(&self, name: &str) -> Host {
        let mut state = self.executor.state();
        let (index, seed) = (state.hosts.len(), state.rng.next_u64());
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let ip = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + number);
        let address = SocketAddr::from((ip, PORT));
        let passed = to_millis(state.now);
        let clock = Clock::driven_by(state.elapsed.clone(), START_UNIX_MS.saturating_add(passed));
        state.hosts.push(HostState::new(name, address, clock, seed));
        state.links.register_host_name(name, vec![address]);
        Host { executor: Arc::clone(&self.executor), index }
    }

    /// The network between the hosts.
    pub fn network(&self) -> Network {
        Network { executor: Arc::clone(&self.executor) }
    }

    /// Tasks that belong to no host, so that no fault ends them: for clients and checks.
    pub fn tasks(&self) -> Arc<dyn crate::Tasks> {
        Arc::new(tasks::Tasks { executor: Arc::clone(&self.executor), owner: None })
    }

    /// Runs a task that belongs to no host.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(None, Box::pin(task));
    }

    /// The simulated time since the start.
    pub fn now(&self) -> Duration {
        self.executor.state().now
    }

    /// Advances the time by `time`.
    pub fn run_for(&self, time: Duration) {
        let until = self.now().saturating_add(time);
        while self.executor.step(until) {}
    }

    /// Advances the time until `condition` holds, which is tested after each event, or until `limit` has passed. Returns
    /// whether it holds.
    pub fn run_until(&self, mut condition: impl FnMut() -> bool, limit: Duration) -> bool {
        let until = self.now().saturating_add(limit);
        loop {
            if condition() {
                return true;
            }
            if !self.executor.step(until) {
                return condition();
            }
        }
    }

    /// Advances the time until `future`, which belongs to no host, is ready.
    ///
    /// # Panics
    /// If that takes more than an hour of simulated time.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let until = self.now().saturating_add(BLOCK_ON_TIMEOUT);
        let result = self.executor.run(pin!(future), until);
        result.unwrap_or_else(|| self.executor.fail("the future did not resolve within an hour of simulated time"))
    }

    /// The same for a task of a host; `None` if the host died before it was ready.
    ///
    /// # Panics
    /// As [`Self::block_on`].
    pub fn block_on_host<T: Send + 'static>(
        &self,
        host: &Host,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (sender, result) = oneshot::channel();
        host.spawn(async move {
            // The receiver is awaited below.
            let _ = sender.send(future.await);
        });
        self.block_on(result).ok()
    }

    /// Reports the time and the running host, also to code inside the world, such as a logger.
    pub fn observer(&self) -> Observer {
        Observer(Arc::downgrade(&self.executor))
    }

    /// The run hash: equal if all events of two runs were equal.
    pub fn fingerprint(&self) -> u64 {
        self.executor.state().trace.value()
    }
}

/// Reports the state of a world while the world exists.
#[derive(Clone, Debug)]
pub struct Observer(Weak<Executor>);

impl Observer {
    /// The simulated time, and the name of the host whose code runs, if it belongs to one.
    pub fn time_and_running_host(&self) -> Option<(Duration, Option<String>)> {
        let executor = self.0.upgrade()?;
        let state = executor.state();
        let name = state.running.and_then(|process| state.hosts.get(process.host)).map(|host| host.name.clone());
        Some((state.now, name))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.executor.end();
    }
}
