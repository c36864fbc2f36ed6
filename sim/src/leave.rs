//! Orderly stops in a healthy cluster.

use std::time::Duration;

use bucksaw_node::StopOutcome;
use bucksaw_query::Request;
use bucksaw_record::{Expr, Millis};

use crate::test_bed::TestBed;

#[test]
fn answers_are_complete_after_a_drained_node_has_left() {
    for seed in 0..5 {
        let mut bed = TestBed::new(20 + seed, 2, 2);
        bed.send(3);
        bed.cluster.machines[0].stop();
        let mut stopped = None;
        for _ in 0..400 {
            bed.run_for(Duration::from_millis(100));
            stopped = stopped.or_else(|| bed.cluster.machines[0].take_stop_outcome());
        }
        assert_eq!(stopped, Some(StopOutcome { drained: true, leave_acknowledged: true }));
        let answers = bed.cluster.machines[1].answers().unwrap();
        let records = answers.search(Request::new(Expr::All, Millis(0), Millis::MAX)).unwrap();
        let (found, stats) = bed.world.block_on(records.write_to(Vec::new())).unwrap();
        assert_eq!(found.len(), bed.sent as usize);
        assert!(!stats.is_partial() && stats.nodes.missing.is_empty(), "{stats:?}");
    }
}
