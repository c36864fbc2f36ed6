//! Damage to one file of a data directory: a small run of `bucksaw-faults damage`.
//!
//! `BUCKSAW_DAMAGE_SEED` selects other changes.

use std::{env, fs};

use bucksaw_faults::{DamageOptions, damage};

use super::flip_bit;
use crate::node::{TestServer, bucksaw};

const ROUNDS: usize = 40;

#[test]
fn the_loss_by_a_change_is_reported() {
    let seed = env::var("BUCKSAW_DAMAGE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let (bucksaw, only) = (env!("CARGO_BIN_EXE_bucksaw").into(), Vec::new());
    let toll = damage(&DamageOptions { bucksaw, rounds: ROUNDS, seed, only, keep: None }).unwrap();
    eprintln!("{toll}");
    assert_eq!(toll.problems, Vec::<String>::new(), "BUCKSAW_DAMAGE_SEED={seed}");
    assert_eq!(toll.rounds(), ROUNDS);
    // Some files must be damaged.
    assert!(toll.losses_reported() > 0, "{toll}");
}

#[test]
fn the_id_of_a_node_is_restored_from_its_backup() {
    let mut node = TestServer::start(&[]);
    node.post("/api/v1/ingest?durability=durable", &[], b"a line\n").expect(200);
    let id = node.status()["id"].clone();
    let verify = |node: &TestServer| {
        let output = bucksaw(["verify".as_ref(), node.dir()]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for (name, at) in [("node.json", 0), ("node.json", 30), ("node.backup", 3), ("node.backup", 40)] {
        let path = node.dir().join(name);
        let bytes = fs::read(&path).unwrap();
        node.kill();
        flip_bit(&path, at);
        let (code, said) = verify(&node);
        assert!(code == Some(1) && said.contains("node.json") && said.contains("1 damaged"), "{name}: {said}");
        node.restart();
        assert_eq!(node.status()["id"], id, "{name}");
        assert_eq!(verify(&node).0, Some(0), "{name}");
        if name == "node.json" {
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        assert_eq!(node.count("line"), 1);
    }
    assert!(node.log().contains("restored from its backup"), "{}", node.log());
    node.kill();
    assert_eq!(verify(&node).0, Some(0));
}
