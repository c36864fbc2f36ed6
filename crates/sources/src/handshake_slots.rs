//! Limits the connections whose TLS handshake is not complete.
//!
//! Anyone can open a connection and send nothing. Such connections must not use up the descriptors and slots of clients, and a
//! flood of them must not keep others out. So a new handshake is always admitted: if too many are open, the oldest of the client
//! network with the most of them ends. An honest client takes milliseconds and is done before its turn comes, also at the address
//! of a flood.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use bucksaw_env::lock;
use bucksaw_steering::client_network;
use tokio::sync::Notify;

/// The slots of all listeners of a process.
#[derive(Debug)]
pub struct HandshakeSlots {
    all_max: usize,
    network_max: usize,
    open: Mutex<OpenHandshakes>,
}

#[derive(Debug, Default)]
struct OpenHandshakes {
    /// Oldest first; no list is empty.
    by_network: HashMap<IpAddr, VecDeque<Arc<Notify>>>,
    count: usize,
}

/// The slot of an open handshake; dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct HandshakeSlot {
    slots: Arc<HandshakeSlots>,
    network: IpAddr,
    eviction: Arc<Notify>,
}

impl HandshakeSlots {
    /// Slots for this many handshakes at the same time, half of them for one network.
    pub fn new(all_max: usize) -> Self {
        Self { all_max: all_max.max(2), network_max: (all_max / 2).max(1), open: Mutex::default() }
    }

    /// Takes a slot for a handshake of this client. Ends another handshake if there is none.
    pub(crate) fn admit(self: &Arc<Self>, client: IpAddr) -> HandshakeSlot {
        let (network, eviction) = (client_network(client), Arc::new(Notify::new()));
        let mut open = lock(&self.open);
        if open.by_network.get(&network).is_some_and(|handshakes| handshakes.len() >= self.network_max) {
            open.evict_oldest(network);
        } else if open.count >= self.all_max {
            let busiest = open.by_network.iter().max_by_key(|(_, handshakes)| handshakes.len());
            if let Some(busiest) = busiest.map(|(network, _)| *network) {
                open.evict_oldest(busiest);
            }
        }
        open.by_network.entry(network).or_default().push_back(Arc::clone(&eviction));
        open.count += 1;
        drop(open);
        HandshakeSlot { slots: Arc::clone(self), network, eviction }
    }
}

impl OpenHandshakes {
    fn evict_oldest(&mut self, network: IpAddr) {
        if let Some(eviction) = self.by_network.get(&network).and_then(|handshakes| handshakes.front().cloned()) {
            eviction.notify_one();
            self.remove(network, &eviction);
        }
    }

    fn remove(&mut self, network: IpAddr, eviction: &Arc<Notify>) {
        let Some(handshakes) = self.by_network.get_mut(&network) else { return };
        if let Some(at) = handshakes.iter().position(|open| Arc::ptr_eq(open, eviction)) {
            handshakes.remove(at);
            self.count -= 1;
        }
        if handshakes.is_empty() {
            self.by_network.remove(&network);
        }
    }
}

impl HandshakeSlot {
    /// Resolves when a newer handshake takes the slot.
    pub(crate) async fn evicted(&self) {
        self.eviction.notified().await;
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        lock(&self.slots.open).remove(self.network, &self.eviction);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_evicted(slot: &HandshakeSlot) -> bool {
        pin!(slot.evicted()).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// How many of these handshakes go on.
    fn open(slots: &[HandshakeSlot]) -> usize {
        slots.iter().filter(|slot| !is_evicted(slot)).count()
    }

    #[test]
    fn a_flood_of_one_network_ends_its_own_oldest_handshakes() {
        let slots = Arc::new(HandshakeSlots::new(4));
        let admit = |address: &str| slots.admit(address.parse().unwrap());
        let honest = [admit("10.0.0.1"), admit("2001:db8::1")];
        let flood: Vec<_> = (0..100).map(|_| admit("10.0.0.2")).collect();
        assert_eq!((open(&honest), open(&flood[..98]), open(&flood[98..])), (2, 0, 2));
        drop(flood);
        let open = lock(&slots.open);
        assert_eq!((open.count, open.by_network.len()), (2, 2));
        drop(open);
    }

    #[test]
    fn a_flood_of_many_networks_leaves_room_for_new_ones() {
        let slots = Arc::new(HandshakeSlots::new(4));
        let mut all = Vec::new();
        for host in 0..50_u8 {
            all.push(slots.admit([10, 0, 0, host].into()));
            assert!(!is_evicted(all.last().unwrap()));
            assert!(lock(&slots.open).count <= 4);
        }
        drop(all);
        let open = lock(&slots.open);
        assert_eq!((open.count, open.by_network.len()), (0, 0));
    }
}
