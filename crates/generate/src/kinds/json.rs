//! One JSON object per line. Rows begin with the message. `<,>` is a comma between fields of the outermost object,
//! where a line can be cut.

use super::line_table::LineTable;
use crate::incidents::LogLevel::{Debug, Error, Info, Warn};

pub(super) static TABLE: LineTable = LineTable {
    affixes: (
        r#"{"time":"<time>"<,>"level":"<level>"<,>"service":"<service>"<,>"msg":"#,
        r#"<,>"host":"<host>"<,>"trace_id":"<trace>"<,>"span_id":"<span>"}"#,
    ),
    rows: &[
        (
            Info,
            40,
            r#""request completed"<,>"http":{"method":"<method>","path":"<url>","status":<status>,"duration_ms":<ms.fraction>,"bytes":<bytes>}<,>"user":{"id":<user-id>,"name":"<user>"}<,>"client":{"address":"<address>","agent":"<agent>"}"#,
        ),
        (
            Info,
            12,
            r#""order placed"<,>"order":{"id":<id>,"items":<few>,"total":<price>,"currency":"<currency>"}<,>"user":{"id":<user-id>}"#,
        ),
        (Info, 10, r#""order <id>: <state>"<,>"order":{"id":<id>}<,>"user":{"id":<user-id>,"name":"<user>"}"#),
        (
            Info,
            8,
            r#""cart updated"<,>"session":"<session>"<,>"item":{"sku":"<sku>","name":"<item>","quantity":<few>}"#,
        ),
        (
            Info,
            8,
            r#""message consumed"<,>"queue":{"topic":"<topic>","partition":<few>,"offset":<growing>,"lag":<some>}"#,
        ),
        (
            Info,
            6,
            r#""user signed in"<,>"user":{"id":<user-id>,"name":"<user>"}<,>"client":{"address":"<address>"}<,>"session":"<session>""#,
        ),
        (
            Info,
            6,
            r#""cache refreshed, <percent>% hits"<,>"cache":{"name":"<cache>","entries":<many>}<,>"duration_ms":<ms.fraction>"#,
        ),
        (
            Info,
            3,
            r#""batch written"<,>"db":{"table":"<table>","rows":<many>,"duration_ms":<ms.fraction>}<,>"region":"<region>""#,
        ),
        (
            Warn,
            8,
            r#""request refused"<,>"http":{"method":"<method>","path":"<url>","status":<status>,"duration_ms":<ms.fraction>}<,>"user":{"id":<user-id>}<,>"client":{"address":"<address>"}"#,
        ),
        (Warn, 5, r#""retrying upstream call"<,>"peer":"<peer>"<,>"attempt":<few><,>"reason":"<reason>""#),
        (Warn, 3, r#""queue is <percent>% full"<,>"queue":{"topic":"<topic>","depth":<many>}"#),
        (Warn, 2, r#""stock is low"<,>"item":{"sku":"<sku>","name":"<item>","left":<few>}"#),
        (
            Error,
            8,
            r#""request failed"<,>"http":{"method":"<method>","path":"<url>","status":<status>,"duration_ms":<ms.fraction>}<,>"user":{"id":<user-id>}<,>"error":{"kind":"<reason>","retryable":true}"#,
        ),
        (Error, 6, r#""upstream call failed"<,>"peer":"<peer>"<,>"attempts":<few><,>"error":{"kind":"<reason>"}"#),
        (
            Error,
            3,
            r#""unhandled exception"<,>"error":{"kind":"exception","text":"<exception>","stack":["<class>.<method-name>:<some>","<class>.<method-name>:<some>"]}<,>"user":{"id":<user-id>}"#,
        ),
        (
            Error,
            2,
            r#""payment declined"<,>"order":{"id":<id>,"total":<price>,"currency":"<currency>"}<,>"user":{"id":<user-id>,"name":"<user>"}"#,
        ),
        (Debug, 3, r#""cache miss"<,>"cache":{"name":"<cache>","key":"<session>"}"#),
        (Debug, 2, r#""connection reused"<,>"peer":"<peer>"<,>"idle_ms":<many>"#),
        (Debug, 1, r#""query planned"<,>"db":{"table":"<table>","column":"<column>","cost":<many>}"#),
    ],
};
