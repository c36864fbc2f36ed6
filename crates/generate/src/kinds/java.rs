//! Lines of Java services. A stack trace is one line, as shippers that join lines send it.

use super::line_table::LineTable;
use crate::incidents::LogLevel::{Debug, Error, Info, Warn};

pub(super) static TABLE: LineTable = LineTable {
    affixes: ("<comma-time> <LEVEL> [<thread><few>] ", ""),
    rows: &[
        (Info, 12, "<class> - Handled <method> <url> with <status> in <ms> ms"),
        (Info, 9, "<class> - Order <id> for customer <user-id>: <state>"),
        (Info, 7, "<class> - Published <some> events to <topic>, offset <growing>"),
        (Info, 6, "<class> - Reserved <few> x <sku> (<item>) for order <id>"),
        (Info, 5, "<class> - Loaded <many> rows from <table> in <ms> ms"),
        (Info, 4, "<class> - GC pause (young) <ms.fraction>ms, heap <percent>% used, region=<region>"),
        (Info, 3, "<class> - Pool stats: active=<few>, idle=<some>, waiting=0, total=<some>"),
        (Info, 2, "<class> - User <user> changed the delivery address of order <id>"),
        (Warn, 5, "<class> - Call to <peer> took <ms> ms, limit is 250 ms"),
        (Warn, 4, "<class> - Attempt <few> of 9 for order <id> failed: <reason>"),
        (Warn, 3, "<class> - Heap is <percent>% full after GC"),
        (Warn, 2, "<class> - Ignoring unknown property 'giftWrap' of order <id>"),
        (Error, 5, "<class> - Cannot complete order <id> [trace=<trace>]: <exception>"),
        (
            Error,
            4,
            "<class> - <exception> at <class>.<method-name>(<class>.java:<some>) at <class>.<method-name>(<class>.java:<some>)",
        ),
        (Error, 3, "<class> - Request <method> <url> failed with <status> after <ms> ms: <exception>"),
        (Error, 1, "<class> - Consumer of <topic> stopped at offset <growing>: <exception>"),
        (Debug, 3, "<class> - enter <method-name>(order=<id>, user=<user-id>)"),
        (Debug, 2, "<class> - leave <method-name> after <ms.fraction> ms"),
        (Debug, 1, "<class> - Session <session> touched, expires in <some> s"),
    ],
};
