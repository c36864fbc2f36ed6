//! A note about a node with little head-room.
//!
//! The node decides what is little. The page has the same warnings: `ui/src/nodes/headRoomText.ts`.

use serde_json::Value;

use super::fields::NodeFields;
use crate::print::human_seconds;

/// The warning as a predicate to follow the name of the node; `None` with enough head-room, or where it is not known.
pub(super) fn warning(node: &NodeFields) -> Option<String> {
    let small = node.get("head_room_small").and_then(Value::as_array)?;
    let value = |key: &str| node.get(key).and_then(Value::as_f64);
    let of = |resource: &str, key: &str| small.iter().any(|name| name == resource).then(|| value(key)).flatten();
    // Rounded down, so that the load is not overstated.
    let cpu = of("CPU", "head_room_cpu_full_at_load_factor")
        .map(|factor| format!("its CPU is full at {:.1} times this load", (factor * 10.0).floor() / 10.0));
    // A disk that is full is the state of the node.
    let disk = of("disk space", "head_room_disk_full_in_seconds")
        .filter(|seconds| *seconds > 0.0)
        .map(|seconds| format!("its disk is full in {}, and then it accepts nothing", human_seconds(seconds)));
    let limits: Vec<String> = cpu.into_iter().chain(disk).collect();
    (!limits.is_empty()).then(|| format!("has little head-room: {}", limits.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_small_resources_are_named() {
        let check = |small: Value, factor: Value, seconds: Value, want: Option<&str>| {
            let node = json!({
                "head_room_small": small, "head_room_cpu_full_at_load_factor": factor,
                "head_room_disk_full_in_seconds": seconds,
            });
            assert_eq!(warning(node.as_object().unwrap()).as_deref(), want);
        };
        check(json!([]), json!(9.0), Value::Null, None);
        let cpu = "has little head-room: its CPU is full at 1.1 times this load";
        check(json!(["CPU"]), json!(1.19), json!(9e9), Some(cpu));
        let both = format!("{cpu}; its disk is full in {}, and then it accepts nothing", human_seconds(7_200.0));
        check(json!(["CPU", "disk space"]), json!(1.19), json!(7_200.0), Some(&both));
        check(json!(["disk space"]), json!(9.0), json!(0.0), None);
        check(json!(["disk space"]), json!(9.0), Value::Null, None);
        assert_eq!(warning(json!({"head_room": null}).as_object().unwrap()), None);
        assert_eq!(warning(&NodeFields::new()), None);
    }
}
