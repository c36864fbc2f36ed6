//! Access lines of a web server: the combined format with the response time in seconds at the end.

use super::line_table::LineTable;
use crate::incidents::LogLevel::{Debug, Error, Info, Warn};

const REQUEST: &str = r#""<method> <url> HTTP/1.1" <status> <bytes> "<referer>" "<agent>" <seconds>"#;
const REQUEST_TWO: &str = r#""<method> <url> HTTP/2.0" <status> <bytes> "<referer>" "<agent>" <seconds>"#;

/// The status shows the level: 2xx and 3xx, 4xx, 5xx.
pub(super) static TABLE: LineTable = LineTable {
    affixes: ("<address> - <visitor> [<access-time>] ", ""),
    rows: &[
        (Info, 6, REQUEST),
        (Info, 4, REQUEST_TWO),
        (Warn, 6, REQUEST),
        (Warn, 4, REQUEST_TWO),
        (Error, 1, REQUEST),
        (Debug, 1, r#""GET /healthz HTTP/1.1" <status> 2 "-" "health-check/1.29" 0.000"#),
    ],
};
