//! Lines of a relational database: connections, checkpoints, slow queries, conflicts.

use super::line_table::LineTable;
use crate::incidents::LogLevel::{Debug, Error, Info, Warn};

pub(super) static TABLE: LineTable = LineTable {
    affixes: ("<spaced-time> UTC [<pid>] ", ""),
    rows: &[
        (
            Info,
            10,
            "<role>@shop LOG:  duration: <ms.fraction> ms  statement: SELECT <column>, <column> FROM <table> WHERE id = <id> ORDER BY <column> LIMIT 50",
        ),
        (
            Info,
            7,
            "<role>@shop LOG:  duration: <ms.fraction> ms  execute S_<few>: UPDATE <table> SET <column> = $1, updated_at = now() WHERE id = $2",
        ),
        (
            Info,
            4,
            "<role>@shop LOG:  duration: <ms.fraction> ms  statement: INSERT INTO <table> (<column>, <column>) VALUES (<id>, '<sku>') ON CONFLICT DO NOTHING",
        ),
        (Info, 5, "[unknown]@[unknown] LOG:  connection received: host=<address> port=<port>"),
        (Info, 5, "<role>@shop LOG:  connection authorized: user=<role> database=shop SSL enabled (protocol=TLSv1.3)"),
        (
            Info,
            4,
            "<role>@shop LOG:  disconnection: session time: 0:0<few>:1<few>.<few>42 user=<role> database=shop host=<address> port=<port>",
        ),
        (Info, 2, "LOG:  checkpoint starting: time"),
        (
            Info,
            2,
            "LOG:  checkpoint complete: wrote <many> buffers (<percent>%); 0 WAL file(s) added, 0 removed, <few> recycled; write=<seconds> s, sync=0.00<few> s; lsn=<position>, redo lsn=<position>",
        ),
        (
            Info,
            2,
            r#"LOG:  automatic vacuum of table "shop.public.<table>": index scans: 1, pages: 0 removed, <many> remain, tuples: <many> removed"#,
        ),
        (Info, 1, r#"LOG:  archived write-ahead log file, position <position>, rate <percent>%"#),
        (Warn, 4, "<role>@shop WARNING:  there is already a transaction in progress"),
        (
            Warn,
            3,
            "<role>@shop LOG:  process <pid> still waiting for ShareLock on transaction <growing> after <ms.fraction> ms",
        ),
        (Warn, 1, "WARNING:  oldest xmin is far in the past, <many> transactions behind"),
        (Error, 4, r#"<role>@shop ERROR:  duplicate key value violates unique constraint "<table>_<column>_key""#),
        (Error, 3, "<role>@shop ERROR:  canceling statement due to statement timeout"),
        (
            Error,
            2,
            "<role>@shop ERROR:  deadlock detected: process <pid> waits for transaction <growing>, blocked by process <pid>",
        ),
        (Error, 1, r#"<role>@shop FATAL:  password authentication failed for user "<guess>""#),
        (Error, 1, "[unknown]@[unknown] FATAL:  sorry, too many clients already"),
        (Debug, 2, "DEBUG:  snapshot of <some> running transactions, oldest <growing>, next lsn <position>"),
        (Debug, 1, "<role>@shop DEBUG:  parse S_<few>: SELECT count(*) FROM <table> WHERE <column> IS NOT NULL"),
    ],
};
