//! Nodes, the network between them and the time, all simulated in one thread: one seed decides what happens.
//!
//! Tasks run one after the other, drawn by the seed among those that are ready. Nothing takes time but what waits for it:
//! when no task is ready the time jumps to the next timer, so idle hours cost nothing. The same seed and the same program
//! give the same run, event for event, which [`World::fingerprint`] shows.
//!
//! What code must keep to that runs here: everything that it waits for comes by the environment or by `tokio::sync`; no threads,
//! no `tokio::{time, net, spawn}`, `tokio::select!` only with `biased`, and nothing that hangs on the order in which the
//! futures of *one* task are woken (as `FuturesUnordered` does, over a `watch`).
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
//! let asked = one.net().call(other.address(), "echo", Body::whole("hello"));
//! let answer = world.block_on(async { asked.await?.read_all(100).await })?;
//! assert_eq!(answer, b"hello");
//!
//! world.network().cut(&[&one], &[&other]);
//! let asked = one.net().call(other.address(), "echo", Body::empty());
//! assert_eq!(world.block_on(asked).unwrap_err().kind(), std::io::ErrorKind::TimedOut);
//! assert_eq!(world.now().as_secs(), 127);
//! # Ok::<(), std::io::Error>(())
//! ```

mod call_fault;
mod change_notifier;
mod connection;
mod executor;
mod host;
mod host_state;
mod net;
mod network;
mod network_conditions;
mod ready_queue;
mod run_hash;
mod tasks;
mod timers;

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::Entropy as _;
use crate::sim::Clock;
use executor::Executor;
pub use host::Host;
use host_state::HostState;
pub use network::Network;
pub use network_conditions::{Delay, NetworkConditions};

/// What wall clocks show when a world begins: the beginning of 2026.
const START_UNIX_MS: u64 = 1_767_225_600_000;

/// The port of all nodes.
const PORT: u16 = 7659;

/// How long [`World::block_on`] waits, in the world's time.
const BLOCK_ON_TIMEOUT: Duration = Duration::from_secs(3_600);

/// A simulated world. When it is dropped, so is all that is in it.
///
/// # Panics
/// Whatever lets time pass panics with the seed in its message when a task or work of a node does.
#[derive(Debug)]
pub struct World {
    executor: Arc<Executor>,
}

impl World {
    /// A world without nodes, in which this number decides everything.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { executor: Executor::new(seed) }
    }

    /// A new node, which runs nothing yet, has an empty disk, and is reached at `name:7659`.
    #[must_use]
    pub fn add_host(&self, name: &str) -> Host {
        let mut state = self.executor.state();
        let (index, seed) = (state.hosts.len(), state.rng.next_u64());
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let ip = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + number);
        let address = SocketAddr::from((ip, PORT));
        let passed = u64::try_from(state.now.as_millis()).unwrap_or(u64::MAX);
        let clock = Clock::driven_by(state.elapsed.clone(), START_UNIX_MS.saturating_add(passed));
        state.hosts.push(HostState::new(name, address, clock, seed));
        state.links.register_host_name(name, vec![address]);
        Host { executor: Arc::clone(&self.executor), index }
    }

    /// What lies between the nodes.
    #[must_use]
    pub fn network(&self) -> Network {
        Network { executor: Arc::clone(&self.executor) }
    }

    /// The tasks of nobody, which no fault ends: for checkers and clients.
    #[must_use]
    pub fn tasks(&self) -> Arc<dyn crate::Tasks> {
        Arc::new(tasks::Tasks { executor: Arc::clone(&self.executor), owner: None })
    }

    /// Runs a task of nobody.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(None, Box::pin(task));
    }

    /// The time since the world began.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.executor.state().now
    }

    /// Lets so much time pass.
    pub fn run_for(&self, time: Duration) {
        let until = self.now().saturating_add(time);
        while self.executor.step(until) {}
    }

    /// Lets time pass until something is so, which is asked after each event, or so much has passed; says which.
    pub fn run_until(&self, mut is_so: impl FnMut() -> bool, at_most: Duration) -> bool {
        let until = self.now().saturating_add(at_most);
        loop {
            if is_so() {
                return true;
            }
            if !self.executor.step(until) {
                return is_so();
            }
        }
    }

    /// Lets time pass until `future` is done, which is nobody's.
    ///
    /// # Panics
    /// When it is not within an hour of the world's time.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let until = self.now().saturating_add(BLOCK_ON_TIMEOUT);
        let done = self.executor.run(pin!(future), until);
        done.unwrap_or_else(|| self.executor.fail("the future did not resolve within an hour of simulated time"))
    }

    /// The same as a task of a node; `None` when that died meanwhile.
    ///
    /// # Panics
    /// As [`Self::block_on`].
    pub fn block_on_host<T: Send + 'static>(
        &self,
        node: &Host,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = oneshot::channel();
        node.spawn(async move {
            // It is waited for below.
            let _ = tell.send(future.await);
        });
        self.block_on(told).ok()
    }

    /// One who can be asked what goes on at this moment, also from within: for those who write down what nodes say.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer(Arc::downgrade(&self.executor))
    }

    /// A number that two runs have in common when every event of theirs was the same.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.executor.state().trace.value()
    }
}

/// Knows what goes on in a world at this moment, for as long as there is that world.
#[derive(Clone, Debug)]
pub struct Observer(Weak<Executor>);

impl Observer {
    /// The time since the world began, and the name of the node whose code runs; none where it is nobody's.
    #[must_use]
    pub fn time_and_running_host(&self) -> Option<(Duration, Option<String>)> {
        let shared = self.0.upgrade()?;
        let state = shared.state();
        let name = state.running.and_then(|life| state.hosts.get(life.host)).map(|host| host.name.clone());
        Some((state.now, name))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.executor.end();
    }
}
