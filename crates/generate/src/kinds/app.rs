//! Lines of services that log in logfmt.

use super::line_table::LineTable;
use crate::incidents::LogLevel::{Debug, Error, Info, Warn};

pub(super) static TABLE: LineTable = LineTable {
    affixes: ("ts=<time> level=<level> ", " service=<service> trace_id=<trace> duration_ms=<ms.fraction>"),
    rows: &[
        (
            Info,
            30,
            r#"msg="request completed" method=<method> path="<url>" status=<status> bytes=<bytes> user_id=<user-id>"#,
        ),
        (Info, 12, r#"msg="order placed" order_id=<id> user=<user> items=<few> total=<price> currency=<currency>"#),
        (Info, 10, r#"msg="order <id>: <state>" user_id=<user-id>"#),
        (Info, 9, r#"msg="cart updated" session=<session> sku=<sku> item="<item>" quantity=<few>"#),
        (Info, 8, r#"msg="user signed in" user=<user> address=<address> session=<session>"#),
        (Info, 8, r#"msg="message consumed" topic=<topic> partition=<few> offset=<growing> lag=<some>"#),
        (Info, 7, r#"msg="cache refreshed" cache=<cache> entries=<many> hit_ratio=<percent>%"#),
        (Info, 6, r#"msg="upstream call" peer=<peer> status=<status> attempt=1"#),
        (Info, 4, r#"msg="feature flag evaluated" flag=<flag> enabled=true user_id=<user-id>"#),
        (Info, 3, r#"msg="batch written" table=<table> rows=<many> region=<region>"#),
        (Info, 1, r#"msg="configuration reloaded" version=<growing> keys=<some>"#),
        (Warn, 8, r#"msg="retrying upstream call" peer=<peer> attempt=<few> reason="<reason>""#),
        (Warn, 6, r#"msg="slow request" method=<method> path="<url>" status=<status> user_id=<user-id>"#),
        (Warn, 4, r#"msg="rate limit reached" user=<user> address=<address> limit=100/s"#),
        (Warn, 4, r#"msg="queue is <percent>% full" topic=<topic> depth=<many>"#),
        (Warn, 3, r#"msg="stock is low" sku=<sku> item="<item>" left=<few>"#),
        (Warn, 2, r#"msg="deprecated field in request" path="<url>" field=customer_name user_id=<user-id>"#),
        (Error, 8, r#"msg="upstream call failed" peer=<peer> attempts=<few> err="<reason>""#),
        (
            Error,
            6,
            r#"msg="request failed" method=<method> path="<url>" status=<status> user_id=<user-id> err="<reason>""#,
        ),
        (Error, 4, r#"msg="payment declined by provider" order_id=<id> user=<user> total=<price> currency=<currency>"#),
        (Error, 3, r#"msg="message dropped" topic=<topic> partition=<few> offset=<growing> err="schema mismatch""#),
        (Error, 2, r#"msg="write failed" table=<table> rows=<some> err="<reason>""#),
        (Debug, 5, r#"msg="cache miss" cache=<cache> key=<session>"#),
        (Debug, 4, r#"msg="connection reused" peer=<peer> idle_ms=<many> span_id=<span>"#),
        (Debug, 2, r#"msg="query planned" table=<table> column=<column> cost=<many>"#),
    ],
};
