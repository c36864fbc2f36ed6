//! Replication and repair over calls between stores.

use std::io;
use std::net::SocketAddr;

use super::*;
use crate::repair::{HELD_IDS, Repair};
use crate::replicate::Replicator;

/// The stores with these numbers, all live.
#[derive(Debug)]
struct LiveStores(Vec<u16>);

impl Peers for LiveStores {
    fn stores(&self) -> Vec<Peer> {
        self.0.iter().map(|number| peer(*number)).collect()
    }

    fn peer_stores(&self) -> Vec<PeerStore> {
        let peer_store = |peer: Peer| PeerStore {
            peer,
            incarnation: peer.node,
            fingerprint: 1,
            is_live: true,
            is_replaced: false,
            has_reported_size: false,
            stored_bytes_at_open: None,
            accepts_replicas: true,
        };
        self.stores().into_iter().map(peer_store).collect()
    }
}

fn peer(number: u16) -> Peer {
    let address = SocketAddr::from(([10, 0, 0, 2], number));
    Peer { node: Id::from_bits(u128::from(number)), address, held_bytes: 0, free_bytes: 1 << 30 }
}

/// The context of a store among the stores `known`, of which `running` answer. Also returns the latter.
pub(super) fn context(
    machine: &StoreTestMachine,
    store: &Arc<SegmentStore>,
    known: &[u16],
    running: &[u16],
) -> (StoreContext, Vec<Arc<SegmentStore>>) {
    let of_node = |node: Id, store: &Arc<SegmentStore>| StoreContext {
        node,
        store: Arc::clone(store) as _,
        env: store.env.clone(),
        metrics: store.metrics.clone(),
        ..machine.context.clone()
    };
    let replicated = Config { replication_factor: 2, retention_age: None, ..config() };
    let (mut by_address, mut stores) = (BTreeMap::new(), Vec::new());
    for number in running {
        let env = Env { fs: Arc::new(sim::Fs::new()), ..store.env.clone() };
        let metrics = Metrics::new(&mut Registry::default());
        let other = Arc::new(SegmentStore::open(env, Path::new("/d/store"), replicated.clone(), metrics).unwrap());
        let context = of_node(peer(*number).node, &other);
        by_address.insert(peer(*number).address, Replication { context, store: Arc::clone(&other) });
        stores.push(other);
    }
    let net = CallNetwork::new(move |address, name, body| {
        let store = by_address.get(&address).cloned();
        Box::pin(async move {
            let store = store.ok_or(io::ErrorKind::ConnectionRefused)?;
            match name.as_str() {
                PUT => store.answer_put(body).await,
                HELD_IDS => store.answer_held_ids(body).await,
                _ => Err(io::ErrorKind::Unsupported.into()),
            }
        })
    });
    let (peers, net) = (Arc::new(LiveStores(known.to_vec())), Arc::new(net));
    (StoreContext { peers, net, ..of_node(NODE, store) }, stores)
}

#[test]
fn a_segment_is_sent_until_as_many_stores_as_wanted_have_it() {
    let replicas = |known: &[u16], running: &[u16], wanted: usize| {
        let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
        machine.put(Durability::Fast, "line", 0);
        machine.gather_all();
        let segment = Arc::clone(&machine.store.segments()[0]);
        let (context, stores) = context(&machine, &machine.store, known, running);
        let peers = context.peers.stores();
        let accepted = machine.tasks.run(Replicator::new(context).replicate(&segment, peers, wanted));
        assert_eq!(stores.iter().filter(|store| store.has(segment.id())).count(), accepted);
        accepted
    };
    assert_eq!(replicas(&[2, 3, 4], &[2, 3, 4], 1), 1);
    assert_eq!(replicas(&[2, 3, 4], &[2, 3, 4], 2), 2);
    assert_eq!(replicas(&[2, 3, 4], &[4], 1), 1, "the other stores failed");
    assert_eq!(replicas(&[2, 3, 4], &[4], 2), 1, "one store remains");
}

#[test]
fn repair_pauses_for_the_bytes_that_it_read_and_sent() {
    const BYTES_PER_SECOND: u64 = 1_000;
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    (0..9).for_each(|at| machine.put(Durability::Fast, &format!("line {at}"), 0));
    machine.gather_all();
    // The same files, from now on with a replica of each record on another store.
    let repair = crate::repair::Config { bytes_per_second: BYTES_PER_SECOND, ..crate::repair::Config::default() };
    let config = Config { replication_factor: 2, repair, ..config() };
    let (env, metrics) = (machine.store.env.clone(), Metrics::new(&mut Registry::default()));
    let store = Arc::new(SegmentStore::open(env, Path::new("/d/store"), config, metrics).unwrap());
    let (context, others) = context(&machine, &store, &[2], &[2]);
    let repair = Repair::new(Replication { context, store: Arc::clone(&store) });
    machine.clock.advance(3 * crate::repair::Config::default().lost_after);
    let before = machine.clock.uptime();
    machine.tasks.run(repair.run_step());
    let pause = (machine.clock.uptime() - before).as_secs_f64();
    let (read, sent) = (store.metrics.repair_read_bytes.get(), store.metrics.repair_restored_bytes.get());
    assert!(read > 0 && sent > 0 && others[0].segments().len() == 1, "{read} {sent}");
    let expected = (read + sent) as f64 / BYTES_PER_SECOND as f64;
    assert!((pause - expected).abs() < 0.001, "{pause} s for {read} + {sent} bytes");
}
