//! The groups of a histogram that are chosen from the records, and the limit of their cells.

use super::*;

fn chosen(node: &TestEngine, field: &str) -> Vec<String> {
    let by = GroupBy::Field(field.to_owned());
    let grouping = node.tasks.run(node.answers().choose_groups(request_all_time(""), by, ())).unwrap();
    let Grouping::Field { name, values } = grouping else { panic!("{grouping:?}") };
    assert_eq!(name, field);
    values
}

#[test]
fn a_label_hides_the_field_of_its_name_from_the_chosen_groups() {
    let mut node = TestEngine::new();
    (0..3).for_each(|_| _ = node.put("line app=hidden host=shown"));
    assert_eq!(chosen(&node, "app"), ["web"]);
    assert_eq!(chosen(&node, "host"), ["shown"]);
}

#[test]
fn a_value_that_is_cut_is_not_chosen() {
    let mut node = TestEngine::new();
    // A group of the cut value would match none of these.
    (0..3).for_each(|number| _ = node.put(&format!("user={}{number}", "x".repeat(300))));
    node.put("user=short");
    assert_eq!(chosen(&node, "user"), ["short"]);
}

#[test]
fn many_groups_leave_fewer_buckets() {
    let node = TestEngine::new();
    let start = node.clock.unix_ms();
    let request = Request::new(Expr::All, Millis(start), Millis(start + 10_000 * 7 * 3_333));
    let buckets = |values: usize| {
        let values: Vec<String> = (0..values).map(|number| number.to_string()).collect();
        let grouping = Grouping::Field { name: "n".to_owned(), values };
        node.histogram(&request, Bucketing { buckets: usize::MAX, grouping }).0.buckets.len()
    };
    assert_eq!(buckets(0), 10_000);
    // A bucket has one more cell, for records of no group; 70,000 cells at most.
    assert_eq!((buckets(6), buckets(9), buckets(20)), (10_000, 7_000, 3_333));
}
