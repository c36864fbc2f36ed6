//! The queries for each kind of log.

use std::path::Path;

/// A query for Bucksaw and for ripgrep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    /// Its kind, as in the table.
    pub(crate) kind: &'static str,
    /// An expression.
    pub(crate) expr: &'static str,
    /// An equivalent regex of ripgrep.
    pub(crate) regex: &'static str,
    /// The requested output.
    pub(crate) output: QueryOutput,
}

/// The requested output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryOutput {
    /// The number of matching lines.
    Count,
    /// The matching lines.
    Lines,
}

const RARE: &str = "rare literal";

/// The kind of which lines are printed too.
const FREQUENT: &str = "frequent literal";

const fn query(kind: &'static str, expr: &'static str, regex: &'static str) -> Query {
    Query { kind, expr, regex, output: QueryOutput::Count }
}

/// The kind of words that no log has.
pub(crate) const ABSENT_KIND: &str = "absent literal";

const ABSENT: Query = absent("zebra-crossing-17");

const fn absent(word: &'static str) -> Query {
    query(ABSENT_KIND, word, word)
}

/// Questions for words that no log has. Now and then a filter lets one pass, and then the question costs several times as much.
pub(crate) const ABSENT_WORDS: [Query; 12] = [
    ABSENT,
    absent("marmalade-kettle"),
    absent("quokkaViaduct"),
    absent("lighthouse_keeper_9"),
    absent("thimbleberry"),
    absent("oxbow-umbrella-42"),
    absent("velvetgrapefruit"),
    absent("jigsawXylophone"),
    absent("pumpernickel-77"),
    absent("wisteria_trombone"),
    absent("hovercraft-eels"),
    absent("dodecahedral-yak"),
];

const WEB: [Query; 8] = [
    query(RARE, "needle-web-5f0a91c7", "needle-web-5f0a91c7"),
    ABSENT,
    query(FREQUENT, "\"/presentations/logstash\"", "/presentations/logstash"),
    query("any-case literal", "\"GOOGLEBOT\"i", "(?i)GOOGLEBOT"),
    query("regex, literal", "/GET \\/blog\\/tags\\/[a-z]+ HTTP/", "GET /blog/tags/[a-z]+ HTTP"),
    query("alternation", "/(bingbot|YandexBot|Baiduspider)/", "(bingbot|YandexBot|Baiduspider)"),
    query("regex, none", "/[a-z]{14,}[0-9]/", "[a-z]{14,}[0-9]"),
    query("every line", "/\" [2-5][0-9]{2} [0-9-]+ \"/", "\" [2-5][0-9]{2} [0-9-]+ \""),
];

const JSON: [Query; 10] = [
    query(RARE, "needle-json-b8e24d30", "needle-json-b8e24d30"),
    ABSENT,
    query(FREQUENT, "\"PushEvent\"", "PushEvent"),
    query("any-case literal", "\"watchevent\"i", "(?i)watchevent"),
    query("regex, literal", "/\"login\":\"a[a-z]+1\"/", "\"login\":\"a[a-z]+1\""),
    query("alternation", "/(ForkEvent|GollumEvent|MemberEvent)/", "(ForkEvent|GollumEvent|MemberEvent)"),
    query("regex, none", "/[a-z]{18,}[0-9]/", "[a-z]{18,}[0-9]"),
    query("every line", "/[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]/", "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]"),
    query("field = value", "type=ForkEvent", "^.\"id\":\"[^\"]*\",\"type\":\"ForkEvent\""),
    query("field >= number", "payload.size>=5", "\"payload\":.\"push_id\":[0-9]+,\"size\":([5-9]|[0-9]{2,}),"),
];

const JAVA: [Query; 8] = [
    query(RARE, "needle-java-07d3f6aa", "needle-java-07d3f6aa"),
    ABSENT,
    query(FREQUENT, "StatusLogger", "StatusLogger"),
    query("any-case literal", "\"COMPACTION\"i", "(?i)COMPACTION"),
    query("regex, literal", "/took [0-9]{3,} MILLISECONDS/", "took [0-9]{3,} MILLISECONDS"),
    query("alternation", "/(GCInspector|Gossiper|HintedHandOff)/", "(GCInspector|Gossiper|HintedHandOff)"),
    query("regex, none", "/[a-z]{16,}[0-9]/", "[a-z]{16,}[0-9]"),
    query("every line", "/[0-9]{2}:[0-9]{2}:[0-9]{2},[0-9]{3}/", "[0-9]{2}:[0-9]{2}:[0-9]{2},[0-9]{3}"),
];

const DB: [Query; 8] = [
    query(RARE, "needle-db-c19e7b52", "needle-db-c19e7b52"),
    ABSENT,
    query(FREQUENT, "\"closing because\"", "closing because"),
    query("any-case literal", "\"PGBENCH_TELLERS\"i", "(?i)PGBENCH_TELLERS"),
    query("regex, literal", "/duration: [0-9]{2,}\\.[0-9]+ ms/", "duration: [0-9]{2,}\\.[0-9]+ ms"),
    query("alternation", "/(FATAL|PANIC|deadlock)/", "(FATAL|PANIC|deadlock)"),
    query("regex, none", "/[a-z]{16,}[0-9]/", "[a-z]{16,}[0-9]"),
    query("every line", "/[0-9]{2}:[0-9]{2}:[0-9]{2}/", "[0-9]{2}:[0-9]{2}:[0-9]{2}"),
];

const GENERATED: [Query; 10] = [
    query(RARE, "\"00:00:07.0\"", "00:00:07\\.0"),
    ABSENT,
    query(FREQUENT, "timeout", "timeout"),
    query("any-case literal", "\"ERROR\"i", "(?i)ERROR"),
    query("regex, literal", "/user=[0-9]+7 /", "user=[0-9]+7 "),
    query("alternation", "/(refused|denied|expired)/", "(refused|denied|expired)"),
    query("regex, none", "/[a-f]{6,}[0-9]/", "[a-f]{6,}[0-9]"),
    query("every line", "/[0-9]{2}:[0-9]{2}:[0-9]{2}/", "[0-9]{2}:[0-9]{2}:[0-9]{2}"),
    query("field = value", "level=error", "^ts=[^ ]+ level=error "),
    query("field >= number", "status>=500", "^ts=.* status=5[0-9]{2}( |$)"),
];

/// The queries for a file.
pub(crate) fn of(file: &Path) -> Vec<Query> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let counted: &[Query] = match name.split(['_', '-', '.']).next().unwrap_or_default() {
        "web" => &WEB,
        "json" => &JSON,
        "java" => &JAVA,
        "db" => &DB,
        _ => &GENERATED,
    };
    let printed = counted.iter().filter(|query| query.kind == FREQUENT);
    let printed = printed.map(|query| Query { kind: "printing", output: QueryOutput::Lines, ..*query });
    counted.iter().copied().chain(printed).collect()
}

/// An expression that few lines of a file match.
pub(crate) fn rare(file: &Path) -> &'static str {
    expr(file, RARE)
}

/// An expression that many lines of a file match.
pub(crate) fn frequent(file: &Path) -> &'static str {
    expr(file, FREQUENT)
}

fn expr(file: &Path, kind: &str) -> &'static str {
    of(file).iter().find(|query| query.kind == kind).map_or("", |query| query.expr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_log_has_one_printed_query() {
        for name in ["web.log", "json.ndjson", "java.log", "db-1.log", "corpus.log"] {
            let queries = of(Path::new(name));
            assert_eq!(queries.iter().filter(|query| query.output == QueryOutput::Lines).count(), 1, "{name}");
            assert!(!rare(Path::new(name)).is_empty() && !frequent(Path::new(name)).is_empty(), "{name}");
        }
    }
}
