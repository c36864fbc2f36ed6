//! Notices of a node, printed to standard error.

use serde_json::Value;

use crate::failure::print_error;
use crate::one_line::one_line;

/// Prints a notice, which is JSON.
pub(crate) fn print(notice: &[u8]) {
    let object = serde_json::from_slice::<Value>(notice).unwrap_or_default();
    let text = |name| object.get(name).and_then(Value::as_str).map(one_line);
    print_error(&match (object.get("skipped_bytes").and_then(Value::as_u64), text("node"), text("lost")) {
        (Some(bytes), ..) => {
            format!("{bytes} bytes arrived faster than they could be printed and were skipped: narrow the expression")
        }
        (_, Some(node), Some(reason)) => format!("node {node} {reason}: its records are not followed until it returns"),
        (_, Some(node), None) if object.get("joined").is_some() => format!("node {node} is followed from now on"),
        _ => format!("the node reports: {}", one_line(&String::from_utf8_lossy(notice))),
    });
}
