//! Nodes that stop and leave in a world where all else is well.

use std::time::Duration;

use bucksaw_node::StopOutcome;
use bucksaw_query::Request;
use bucksaw_record::{Expr, Millis};

use crate::test_bed::TestBed;

#[test]
fn who_leaves_with_nothing_left_is_missed_by_nobody() {
    for seed in 0..5 {
        let mut bench = TestBed::new(20 + seed, 2, 2);
        bench.send(3);
        bench.fleet.machines[0].stop();
        let mut stopped = None;
        for _ in 0..400 {
            bench.run_for(Duration::from_millis(100));
            stopped = stopped.or_else(|| bench.fleet.machines[0].take_stop_outcome());
        }
        assert_eq!(stopped, Some(StopOutcome { drained: true, leave_acknowledged: true }));
        let answers = bench.fleet.machines[1].answers().unwrap();
        let records = answers.search(Request::new(Expr::All, Millis(0), Millis::MAX)).unwrap();
        let (found, stats) = bench.world.block_on(records.write_to(Vec::new())).unwrap();
        assert_eq!(found.len(), bench.sent as usize);
        assert!(!stats.is_partial() && stats.nodes.missing.is_empty(), "{stats:?}");
    }
}
