//! Lists of streams where records occur twice, or are about to leave the queue.

use super::*;

fn records(node: &TestEngine) -> Vec<(String, u64)> {
    let (streams, stats) = node.streams(request_all_time(""));
    assert!(!streams.is_approximate && !streams.is_cut && !stats.is_partial());
    streams.streams.iter().map(|stream| (stream.labels.to_string(), stream.records)).collect()
}

#[test]
fn records_that_a_store_has_fetched_are_not_counted_in_the_queue() {
    let mut node = TestEngine::new();
    for number in 0..20 {
        node.put(&format!("line {number}"));
    }
    assert_eq!(records(&node), [("app=web".to_owned(), 20)]);
    node.advance_clock(3_000);
    // The store of another node has them. That node lists them, and for a while searches also read them here.
    let fetched: Vec<Id> = node.engine.queue().uncommitted_segments().iter().map(|view| view.id).collect();
    node.engine.queue().commit(&fetched);
    assert_eq!(node.count(&request_all_time("")), 20);
    assert_eq!(records(&node), []);
}

#[test]
fn records_of_two_blocks_of_one_stream_are_counted_once() {
    let mut node = TestEngine::new();
    let ids: Vec<Id> = (0..10).map(|number| node.put(&format!("line {number}"))).collect();
    node.move_to_store();
    for (number, id) in ids.iter().enumerate() {
        node.put_as(*id, "app=web", format!("line {number}").as_bytes());
    }
    node.put("another line");
    node.move_to_store();
    let blocks: u64 = node.store.segments().iter().map(|segment| segment.footer().summary().records).sum();
    assert_eq!(blocks, 21, "both segments have the ten records");
    assert_eq!(records(&node), [("app=web".to_owned(), 11)]);
}
