//! Answers over HTTP equal those of a naive oracle, and hostile requests get an error.
#![allow(clippy::disallowed_methods, reason = "limits calls in real time")]

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use bucksaw_env::{Fs as _, sim};
use bucksaw_record::{Millis, time};
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use proptest::prelude::*;

use super::*;
use crate::fixtures::{NOW_MS, app};
use crate::server::router;

/// No call may take longer.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

const HOUR_MS: u64 = 3_600_000;

/// The time range of a quarantined segment, both ends inclusive, and its name.
const DAMAGED_MS: (u64, u64) = (NOW_MS - 2_000_000, NOW_MS - 1_000_000);
const DAMAGED_FILE: &str = "/store/20231114T214000000Z-20231114T215640000Z-01KAHRG9A10000000004000000.damaged";

const WORDS: [&str; 3] = ["oak", "elm", "fir"];
const LEVELS: [Option<&str>; 3] = [Some("error"), Some("info"), None];

/// An answer: status, body, and the statistics of the trailer.
struct Answer {
    status: StatusCode,
    body: Bytes,
    trailer: Option<Value>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

async fn call(app: &App, request: Request<Body>) -> Answer {
    let whole = async {
        let is_tail = request.uri().path() == "/api/v1/tail";
        let response = TowerToHyperService::new(router(app.clone())).call(request).await.unwrap();
        let status = response.status();
        if is_tail && status == StatusCode::OK {
            return Answer { status, body: Bytes::new(), trailer: None };
        }
        let collected = response.into_body().collect().await.unwrap();
        let trailer = collected.trailers().and_then(|trailers| trailers.get("bucksaw-stats"));
        let trailer = trailer.map(|stats| serde_json::from_slice(stats.as_bytes()).unwrap());
        Answer { status, trailer, body: collected.to_bytes() }
    };
    tokio::time::timeout(CALL_TIMEOUT, whole).await.expect("the call hangs")
}

fn encode(text: impl AsRef<[u8]>) -> String {
    percent_encode(text.as_ref(), NON_ALPHANUMERIC).to_string()
}

async fn get(app: &App, target: &str) -> Answer {
    call(app, Request::get(format!("/api/v1/{target}")).body(Body::empty()).unwrap()).await
}

/// A record of the oracle.
#[derive(Clone, Debug)]
struct OracleRecord {
    /// From the answer to a query for all records.
    id: String,
    ms: u64,
    app: &'static str,
    number: u64,
    word: &'static str,
    level: Option<&'static str>,
}

impl OracleRecord {
    fn line(&self) -> String {
        let level = self.level.map_or(String::new(), |level| format!(r#","level":"{level}""#));
        format!(r#"{{"ts":{},"n":{},"word":"{}"{level}}}"#, self.ms, self.number, self.word)
    }
}

/// A drawn filter expression.
#[derive(Clone, Debug)]
enum DrawnFilter {
    All,
    App(&'static str),
    Word(&'static str),
    Level(&'static str),
    Below(u64),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

impl DrawnFilter {
    fn matches(&self, record: &OracleRecord) -> bool {
        match self {
            Self::All => true,
            Self::App(app) => record.app == *app,
            Self::Word(word) => record.word == *word,
            Self::Level(level) => record.level == Some(*level),
            Self::Below(number) => record.number < *number,
            Self::Not(filter) => !filter.matches(record),
            Self::And(left, right) => left.matches(record) && right.matches(record),
            Self::Or(left, right) => left.matches(record) || right.matches(record),
        }
    }

    /// Whether the labels of a stream pass, if its records had no text; `None` if the filter is about text.
    fn passes_labels(&self, app: &str) -> Option<bool> {
        Some(match self {
            Self::All => true,
            Self::App(wanted) => app == *wanted,
            Self::Word(_) => return None,
            Self::Level(_) | Self::Below(_) => false,
            Self::Not(filter) => !filter.passes_labels(app)?,
            Self::And(left, right) => {
                let (left, right) = (left.passes_labels(app)?, right.passes_labels(app)?);
                left && right
            }
            Self::Or(left, right) => {
                let (left, right) = (left.passes_labels(app)?, right.passes_labels(app)?);
                left || right
            }
        })
    }

    fn spell(&self) -> String {
        match self {
            Self::All => "\"\"".to_owned(),
            Self::App(app) => format!("app={app}"),
            Self::Word(word) => format!("\"{word}\""),
            Self::Level(level) => format!("level={level}"),
            Self::Below(number) => format!("n<{number}"),
            Self::Not(filter) => format!("NOT ({})", filter.spell()),
            Self::And(left, right) => format!("({}) AND ({})", left.spell(), right.spell()),
            Self::Or(left, right) => format!("({}) OR ({})", left.spell(), right.spell()),
        }
    }
}

fn filter() -> impl Strategy<Value = DrawnFilter> {
    let leaf = prop_oneof![
        Just(DrawnFilter::All),
        prop::sample::select(vec!["a", "b"]).prop_map(DrawnFilter::App),
        prop::sample::select(WORDS.to_vec()).prop_map(DrawnFilter::Word),
        prop::sample::select(vec!["error", "info", "warn"]).prop_map(DrawnFilter::Level),
        (0_u64..30).prop_map(DrawnFilter::Below),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            inner.prop_map(|filter| DrawnFilter::Not(Box::new(filter))),
            pair.clone().prop_map(|(left, right)| DrawnFilter::And(Box::new(left), Box::new(right))),
            pair.prop_map(|(left, right)| DrawnFilter::Or(Box::new(left), Box::new(right))),
        ]
    })
}

/// A time of a record: few distinct ones, around an hour ago, and near the quarantined segment.
fn record_ms() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0_u64..6).prop_map(|step| NOW_MS - HOUR_MS + step - 3),
        (0_u64..5_000_000).prop_map(|ago| NOW_MS - ago),
        (0_u64..8).prop_map(|step| NOW_MS - step * 600_000),
    ]
}

/// Bodies with one label each, of records with time, word and level.
fn batches() -> impl Strategy<Value = Vec<(&'static str, Vec<OracleRecord>)>> {
    let record = (record_ms(), prop::sample::select(WORDS.to_vec()), prop::sample::select(LEVELS.to_vec()));
    let batch = (prop::sample::select(vec!["a", "b"]), prop::collection::vec(record, 1..8));
    prop::collection::vec(batch, 1..5).prop_map(|batches| {
        let mut numbers = 0..;
        let record = |app, (ms, word, level)| OracleRecord {
            id: String::new(),
            ms,
            app,
            number: numbers.next().unwrap(),
            word,
            level,
        };
        let mut record = record;
        batches
            .into_iter()
            .map(|(app, records)| (app, records.into_iter().map(|parts| record(app, parts)).collect()))
            .collect()
    })
}

/// How the answer to a query for records is requested.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Ndjson,
    Json,
    Text,
    RawMessages,
    JsonMessages,
}

/// A drawn query. Times are Unix milliseconds; `after` and `of` are positions in the list of records, modulo its
/// length.
#[derive(Clone, Debug)]
struct DrawnQuery {
    filter: DrawnFilter,
    from: Option<u64>,
    to: Option<u64>,
    limit: Option<u64>,
    order: Option<bool>,
    after: Option<usize>,
    form: Form,
    is_post: bool,
    buckets: Option<u64>,
    sides: (u64, u64),
}

fn query() -> impl Strategy<Value = DrawnQuery> {
    let moment = || prop::option::of(prop_oneof![record_ms(), Just(NOW_MS), Just(0)]);
    let form = prop::sample::select(vec![Form::Ndjson, Form::Json, Form::Text, Form::RawMessages, Form::JsonMessages]);
    let window = (moment(), moment(), prop::option::of(0_u64..12), any::<Option<bool>>());
    let rest = (
        prop::option::weighted(0.3, 0_usize..40),
        form,
        any::<bool>(),
        prop::option::of(1_u64..9),
        (0_u64..4, 0_u64..4),
    );
    (filter(), window, rest).prop_map(|(filter, (from, to, limit, order), (after, form, is_post, buckets, sides))| {
        DrawnQuery { filter, from, to, limit, order, after, form, is_post, buckets, sides }
    })
}

impl DrawnQuery {
    /// The lower bound and the upper bound, the latter exclusive.
    fn range(&self) -> (u64, u64) {
        (self.from.unwrap_or(NOW_MS - HOUR_MS), self.to.unwrap_or(NOW_MS + Millis::AHEAD_MS_MAX + 1))
    }

    fn window(&self) -> String {
        let moment = |name: &str, at: Option<u64>| at.map_or(String::new(), |at| format!("&{name}={}", seconds(at)));
        format!("q={}{}{}", encode(self.filter.spell()), moment("from", self.from), moment("to", self.to))
    }

    async fn send(&self, app: &App, path: &str, parameters: &str) -> Answer {
        let accept = match self.form {
            Form::Ndjson => "*/*",
            Form::Json => "application/json",
            Form::Text => "text/plain",
            Form::RawMessages | Form::JsonMessages => "application/x-bucksaw-stream",
        };
        let request = match self.is_post {
            false => Request::get(format!("/api/v1/{path}?{parameters}")).body(Body::empty()),
            true => Request::post(format!("/api/v1/{path}"))
                .header("content-type", "application/x-www-form-urlencoded")
                .body(Body::from(parameters.to_owned())),
        };
        let mut request = request.unwrap();
        if path == "query" {
            request.headers_mut().insert(header::ACCEPT, accept.parse().unwrap());
        }
        call(app, request).await
    }

    /// The lines of the matching records, and the statistics.
    async fn records(&self, app: &App, after: Option<&OracleRecord>) -> Result<(Vec<String>, Value), Answer> {
        let mut parameters = self.window();
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                parameters.push_str(&format!("&{name}={value}"));
            }
        };
        add("limit", self.limit.map(|limit| limit.to_string()));
        add("order", self.order.map(|descending| if descending { "desc" } else { "asc" }.to_owned()));
        add("after", after.map(|record| record.id.clone()));
        add("format", (self.form == Form::RawMessages).then(|| "raw".to_owned()));
        let answer = self.send(app, "query", &parameters).await;
        if answer.status != StatusCode::OK {
            return Err(answer);
        }
        let line = |object: &Value| object["line"].as_str().unwrap().to_owned();
        let text = || str::from_utf8(&answer.body).unwrap();
        Ok(match self.form {
            Form::Ndjson => {
                let mut objects: Vec<Value> = text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                let stats = objects.pop().unwrap()["stats"].clone();
                (objects.iter().map(line).collect(), stats)
            }
            Form::Json => {
                let document = answer.json();
                (document["records"].as_array().unwrap().iter().map(line).collect(), document["stats"].clone())
            }
            Form::Text => {
                assert!(text().is_empty() || text().ends_with('\n'));
                (text().lines().map(str::to_owned).collect(), answer.trailer.unwrap())
            }
            Form::RawMessages | Form::JsonMessages => {
                let (mut lines, mut stats, mut rest) = (Vec::new(), None, &answer.body[..]);
                while let [kind, a, b, c, d, tail @ ..] = rest {
                    assert!(stats.is_none(), "a message follows the statistics");
                    let (content, tail) = tail.split_at(u32::from_le_bytes([*a, *b, *c, *d]) as usize);
                    let content = str::from_utf8(content).unwrap();
                    match (kind, self.form) {
                        (1, Form::RawMessages) => lines.extend(content.lines().map(str::to_owned)),
                        (2, Form::JsonMessages) => {
                            lines.extend(content.lines().map(|object| line(&serde_json::from_str(object).unwrap())));
                        }
                        (3, _) => stats = Some(serde_json::from_str::<Value>(content).unwrap()["stats"].clone()),
                        other => panic!("unexpected message {other:?}"),
                    }
                    rest = tail;
                }
                assert!(rest.is_empty());
                (lines, stats.unwrap())
            }
        })
    }
}

/// Unix milliseconds as a parameter.
fn seconds(ms: u64) -> String {
    time::format_rfc3339(Millis(ms), 0)
}

/// Sends the batches, and returns the records in the order of their ids.
async fn ingest(app: &App, batches: &[(&'static str, Vec<OracleRecord>)]) -> Vec<OracleRecord> {
    for (label, records) in batches {
        let body: String = records.iter().map(|record| record.line() + "\n").collect();
        let request = Request::post(format!("/api/v1/ingest?label=app={label}"))
            .header("content-type", "application/x-ndjson")
            .body(Body::from(body));
        let answer = call(app, request.unwrap()).await;
        assert_eq!(answer.json(), json!({ "accepted": records.len(), "rejected": 0 }));
    }
    let mut all: Vec<OracleRecord> = batches.iter().flat_map(|(_, records)| records.clone()).collect();
    let listed = get(app, "query?from=1970-01-01").await;
    let objects =
        str::from_utf8(&listed.body).unwrap().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ids: BTreeMap<String, String> = objects
        .filter_map(|object| Some((object["line"].as_str()?.to_owned(), object["id"].as_str()?.to_owned())))
        .collect();
    assert_eq!(ids.len(), all.len());
    for record in &mut all {
        record.id = ids[&record.line()].clone();
    }
    all.sort_by(|left, right| left.id.cmp(&right.id));
    assert!(all.is_sorted_by_key(|record| record.ms), "ids sort by time");
    all
}

/// Whether an answer over `[from, to)` must be partial; `None` where only one end of the ranges touches.
fn must_be_partial((from, to): (u64, u64), is_damaged: bool) -> Option<bool> {
    match is_damaged {
        false => Some(false),
        true if from < DAMAGED_MS.1 && to > DAMAGED_MS.0 + 1 => Some(true),
        true if from > DAMAGED_MS.1 || to <= DAMAGED_MS.0 => Some(false),
        true => None,
    }
}

fn check_stats(stats: &Value, matched: u64, partial: Option<bool>, query: &DrawnQuery) -> Result<(), TestCaseError> {
    prop_assert_eq!(&stats["matched"], &json!(matched), "{:?}", query);
    let is_partial = stats["partial"].as_bool().unwrap();
    prop_assert!(partial.is_none_or(|partial| partial == is_partial), "{query:?}: {stats}");
    prop_assert_eq!(is_partial, !stats["partial_reasons"].as_array().unwrap().is_empty(), "{}", stats);
    prop_assert_eq!((&stats["nodes_asked"], &stats["nodes_answered"]), (&json!(1), &json!(1)));
    Ok(())
}

/// Checks one drawn query at every call against the oracle.
async fn check(app: &App, all: &[OracleRecord], query: &DrawnQuery, is_damaged: bool) -> Result<(), TestCaseError> {
    let (from, to) = query.range();
    let after = query.after.map(|at| &all[at % all.len()]);
    let found = query.records(app, after).await;
    if from > to {
        let error = found.expect_err("a range that ends before it begins").json()["error"].clone();
        prop_assert_eq!(error, json!("from is later than to"));
        return Ok(());
    }
    let in_range = |record: &&OracleRecord| (from..to).contains(&record.ms) && query.filter.matches(record);
    let matching: Vec<&OracleRecord> = all.iter().filter(in_range).collect();
    let is_descending = query.order == Some(true);
    let mut want = matching.clone();
    if is_descending {
        want.reverse();
    }
    want.retain(|record| {
        after.is_none_or(|after| if is_descending { record.id < after.id } else { record.id > after.id })
    });
    want.truncate(query.limit.map_or(usize::MAX, |limit| limit as usize));
    let Ok((lines, stats)) = found else { panic!("refused: {query:?}") };
    prop_assert_eq!(&lines, &want.iter().map(|record| record.line()).collect::<Vec<_>>(), "{:?}", query);
    // `after` narrows the range.
    let narrowed = match (after, is_descending) {
        (None, _) => (from, to),
        (Some(after), true) => (from, to.min(after.ms)),
        (Some(after), false) => (from.max(after.ms), to),
    };
    let partial = if after.is_none() { must_be_partial(narrowed, is_damaged) } else { None };
    check_stats(&stats, lines.len() as u64, partial, query)?;

    let total = matching.len() as u64;
    let partial = must_be_partial((from, to), is_damaged);
    let count = query.send(app, "count", &query.window()).await.json();
    prop_assert_eq!(&count["count"], &json!(total), "{:?}", query);
    check_stats(&count["stats"], total, partial, query)?;

    let fields = query.send(app, "fields", &query.window()).await.json();
    prop_assert_eq!((&fields["records"], &fields["sampled"]), (&json!(total), &json!(false)), "{:?}", query);
    let mut apps = BTreeMap::<&str, u64>::new();
    matching.iter().for_each(|record| *apps.entry(record.app).or_default() += 1);
    let field = fields["fields"].as_array().unwrap().iter().find(|field| field["name"] == "app");
    let values = field.map(|field| field["values"].as_array().unwrap().clone()).unwrap_or_default();
    let got: BTreeMap<&str, u64> =
        values.iter().map(|value| (value["value"].as_str().unwrap(), value["count"].as_u64().unwrap())).collect();
    prop_assert_eq!(got, apps, "{:?}", query);

    check_histogram(app, &matching, query).await?;
    check_streams(app, all, query).await?;
    if let Some(record) = after {
        let stream: Vec<&OracleRecord> = all.iter().filter(|other| other.app == record.app).collect();
        let at = stream.iter().position(|other| other.id == record.id).unwrap();
        let (before, behind) = query.sides;
        let context = get(app, &format!("context?id={}&before={before}&after={behind}", record.id)).await.json();
        let got =
            context["records"].as_array().unwrap().iter().map(|record| record["line"].as_str().unwrap().to_owned());
        let (first, end) = (at.saturating_sub(before as usize), (at + 1 + behind as usize).min(stream.len()));
        prop_assert_eq!(
            got.collect::<Vec<_>>(),
            stream[first..end].iter().map(|record| record.line()).collect::<Vec<_>>()
        );
    }
    Ok(())
}

/// Checks the lists of streams and of labels.
async fn check_streams(app: &App, all: &[OracleRecord], query: &DrawnQuery) -> Result<(), TestCaseError> {
    let (from, to) = query.range();
    let streams = query.send(app, "streams", &query.window()).await;
    let labels = query.send(app, "labels", &query.window()).await;
    if query.filter.passes_labels("a").is_none() {
        for answer in [streams, labels] {
            prop_assert_eq!(answer.status, StatusCode::BAD_REQUEST);
            prop_assert!(answer.json()["error"].as_str().unwrap().contains("use labels, such as app=shop"));
        }
        return Ok(());
    }
    let mut want = BTreeMap::<&str, u64>::new();
    let in_range = |record: &&OracleRecord| (from..to).contains(&record.ms);
    let passing = all.iter().filter(in_range).filter(|record| query.filter.passes_labels(record.app) == Some(true));
    passing.for_each(|record| *want.entry(record.app).or_default() += 1);
    let streams = streams.json();
    prop_assert_eq!((&streams["distinct"], &streams["approximate"]), (&json!(want.len()), &Value::Null));
    let mut found = BTreeMap::new();
    for stream in streams["streams"].as_array().unwrap() {
        let app = stream["labels"]["app"].as_str().unwrap();
        prop_assert_eq!(&stream["text"], &json!(format!("app={app}")));
        prop_assert!(stream["bytes"].as_u64() > stream["records"].as_u64());
        found.insert(app, stream["records"].as_u64().unwrap());
    }
    prop_assert_eq!(&found, &want, "{:?}", query);
    let values: Vec<Value> = want.keys().map(|app| json!({ "value": app, "streams": 1 })).collect();
    let label = json!([{ "name": "app", "values": values, "distinct": values.len() }]);
    let label = if values.is_empty() { json!([]) } else { label };
    prop_assert_eq!(&labels.json()["labels"], &label, "{:?}", query);
    Ok(())
}

async fn check_histogram(app: &App, matching: &[&OracleRecord], query: &DrawnQuery) -> Result<(), TestCaseError> {
    let (from, _) = query.range();
    // By default a histogram ends now.
    let to = query.to.unwrap_or(NOW_MS + 1);
    let buckets = query.buckets.map_or(String::new(), |buckets| format!("&buckets={buckets}"));
    for grouping in GROUPINGS {
        let answer = query.send(app, "histogram", &format!("{}{buckets}{}", query.window(), grouping.0)).await;
        if from < to {
            check_groups(&answer.json(), (from, to), matching, query, grouping)?;
        }
    }
    Ok(())
}

/// The parameters of a grouping, the groups in their order (`None` if the node chooses), and the value of a record.
type DrawnGrouping = (&'static str, Option<&'static [&'static str]>, fn(&OracleRecord) -> Option<String>);

const GROUPINGS: [DrawnGrouping; 8] = [
    ("", None, |_| None),
    ("&by=@level", Some(&["trace", "debug", "info", "warn", "error", "fatal"]), |record| level(record, None)),
    ("&by=@level&value=error&value=none", Some(&["error", "none"]), |record| level(record, Some("none"))),
    ("&by=word&value=elm&value=oak&value=elm", Some(&["elm", "oak"]), |record| Some(record.word.to_owned())),
    ("&by=app&value=b", Some(&["b"]), |record| Some(record.app.to_owned())),
    ("&by=@stream&value=app%3Da", Some(&["app=a"]), |record| Some(format!("app={}", record.app))),
    ("&by=word", None, |record| Some(record.word.to_owned())),
    ("&by=@stream", None, |record| Some(format!("app={}", record.app))),
];

fn level(record: &OracleRecord, none: Option<&str>) -> Option<String> {
    record.level.or(none).map(str::to_owned)
}

fn check_groups(
    answer: &Value,
    (from, to): (u64, u64),
    matching: &[&OracleRecord],
    query: &DrawnQuery,
    (parameters, values, value_of): DrawnGrouping,
) -> Result<(), TestCaseError> {
    let mut counted = BTreeMap::<String, u64>::new();
    let in_range = |record: &&&OracleRecord| (from..to).contains(&record.ms);
    matching
        .iter()
        .filter(in_range)
        .filter_map(|record| value_of(record))
        .for_each(|value| *counted.entry(value).or_default() += 1);
    let mut frequent: Vec<(&String, &u64)> = counted.iter().collect();
    frequent.sort_by_key(|(value, count)| (std::cmp::Reverse(**count), *value));
    let values = match values {
        Some(values) => json!(values),
        None if parameters.is_empty() => Value::Null,
        // The sample of the choice has all records.
        None => frequent.iter().map(|(value, _)| json!(value)).collect(),
    };
    prop_assert_eq!(&answer["group_values"], &values, "{} {:?}", parameters, query);
    let buckets = answer["buckets"].as_array().unwrap();
    prop_assert!((1..=query.buckets.unwrap_or(60)).contains(&(buckets.len() as u64)), "{query:?}");
    let at = |time: &Value| time::parse_timestamp(time.as_str().unwrap(), Millis(0), &time::TimeZone::UTC).unwrap().0;
    prop_assert_eq!((at(&buckets[0]["from"]), at(&buckets[buckets.len() - 1]["to"])), (from, to), "{:?}", query);
    for (number, bucket) in buckets.iter().enumerate() {
        let (low, high) = (at(&bucket["from"]), at(&bucket["to"]));
        prop_assert!(low < high && (number == 0 || buckets[number - 1]["to"] == bucket["from"]));
        let inside = || matching.iter().filter(|record| (low..high).contains(&record.ms));
        prop_assert_eq!(&bucket["count"], &json!(inside().count()), "{:?}", query);
        let mut groups = serde_json::Map::new();
        for value in values.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let count = inside().filter(|record| value_of(record).as_deref() == Some(value)).count();
            if count > 0 {
                groups.insert(value.to_owned(), count.into());
            }
        }
        let groups = if values.is_null() { Value::Null } else { groups.into() };
        prop_assert_eq!(&bucket["groups"], &groups, "{} {:?}", parameters, query);
    }
    Ok(())
}

/// A parameter value that is no number, time, id, order or anything else.
fn hostile_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        "[-+.0-9eE]{1,30}".prop_map(String::into_bytes),
        "[()\"/ANDORT=<>!~\\\\ -]{0,30}".prop_map(String::into_bytes),
        prop::sample::select(vec![
            "",
            "0",
            "-1",
            "18446744073709551615",
            "18446744073709551616",
            "99999999999999999999999999",
            "now",
            "1d",
            "0s",
            "253402300800",
            "99999-01-01T00:00:00Z",
            "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "00000000000000000000000000",
            "asc",
            "desc",
            "raw",
            "@level",
            "@stream",
            "/(a{1000}){1000}/",
            "/[/",
            "\"",
            "\u{0}",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        (1_usize..3_000).prop_map(|depth| vec![b'('; depth]),
        (1_usize..20_000).prop_map(|length| vec![b'a'; length]),
    ]
}

/// A query string of known, unknown and malformed parameters.
fn hostile_parameters() -> impl Strategy<Value = String> {
    let names = [
        "q", "from", "to", "limit", "order", "after", "format", "tz", "buckets", "by", "value", "id", "before", "rate",
        "node",
    ];
    let pair = prop_oneof![
        8 => (prop::sample::select(names.to_vec()), hostile_value()).prop_map(|(name, value)| format!("{name}={}", encode(value))),
        1 => hostile_value().prop_map(|name| format!("{}=1", encode(name))),
        1 => "[%&=+a-f0-9;]{0,20}".prop_map(|text| text),
    ];
    prop::collection::vec(pair, 0..5).prop_map(|pairs| pairs.join("&"))
}

/// An error is a 4xx with one sentence.
fn check_error(answer: &Answer, context: &str) -> Result<(), TestCaseError> {
    prop_assert!(answer.status.is_client_error(), "{}: {context}", answer.status);
    let body = answer.json();
    let error = body["error"].as_str().unwrap_or_default();
    let is_sentence =
        !error.is_empty() && error.chars().count() <= 500 && !error.contains(['\n', '\r']) && !error.contains("panic");
    let keys = 1 + usize::from(context.starts_with("check?") && body["column"].is_u64());
    prop_assert!(is_sentence && body.as_object().unwrap().len() == keys, "{body}: {context}");
    Ok(())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn answers_equal_those_of_a_naive_oracle(
        batches in batches(),
        queries in prop::collection::vec(query(), 6),
        is_damaged in any::<bool>(),
    ) {
        let fs = sim::Fs::new();
        if is_damaged {
            fs.create_dir_all("/store".as_ref()).unwrap();
            fs.create(DAMAGED_FILE.as_ref()).unwrap().append(&[b"damaged"]).unwrap();
        }
        runtime().block_on(async {
            let app = app(&fs, 0);
            let all = ingest(&app, &batches).await;
            for query in &queries {
                check(&app, &all, query, is_damaged).await?;
            }
            Ok::<(), TestCaseError>(())
        })?;
    }

    #[test]
    fn hostile_parameters_get_an_answer_or_a_clear_error(
        requests in prop::collection::vec(
            (
                prop::sample::select(vec!["query", "count", "histogram", "fields", "context", "labels", "streams", "tail", "forget", "check"]),
                hostile_parameters(),
                prop::option::of(hostile_parameters()),
            ),
            8,
        ),
    ) {
        runtime().block_on(async {
            let app = app(&sim::Fs::new(), 0);
            get(&app, "count").await;
            for (path, target, form) in &requests {
                let uri = format!("/api/v1/{path}?{target}");
                let request = match form {
                    None if *path == "forget" => Request::post(uri).body(Body::empty()),
                    None => Request::get(uri).body(Body::empty()),
                    Some(form) => Request::post(uri)
                        .header("content-type", "application/x-www-form-urlencoded")
                        .body(Body::from(form.clone())),
                };
                // A request target that HTTP does not allow never reaches a handler.
                let Ok(request) = request else { continue };
                let answer = call(&app, request).await;
                if answer.status == StatusCode::OK {
                    let is_whole = *path == "tail" || answer.body.ends_with(b"}\n") || answer.body.ends_with(b"}") || answer.trailer.is_some();
                    prop_assert!(is_whole, "{path}?{target}: {:?}", answer.body);
                } else {
                    check_error(&answer, &format!("{path}?{target} {form:?}"))?;
                }
            }
            Ok::<(), TestCaseError>(())
        })?;
    }

    /// Hints never change an answer; one of an unknown field names the nearest that exists.
    #[test]
    fn an_empty_answer_hints_at_fields_that_no_record_has(path in prop::sample::select(vec!["query", "count", "histogram", "fields"])) {
        runtime().block_on(async {
            let app = app(&sim::Fs::new(), 0);
            let records = (0..3).map(|number| OracleRecord {
                id: String::new(), ms: NOW_MS - 1_000, app: "a", number, word: "oak", level: Some("info"),
            });
            ingest(&app, &[("a", records.collect())]).await;
            let hints = async |q: &str| {
                let answer = get(&app, &format!("{path}?q={}", encode(q))).await;
                let last = str::from_utf8(&answer.body).unwrap().lines().last().unwrap().to_owned();
                serde_json::from_str::<Value>(&last).unwrap()["stats"]["hints"].clone()
            };
            let near = "none of the newest 3 records of this time range has a field `wrod`; there is `word`";
            prop_assert_eq!(hints("wrod=oak").await, json!([near]));
            let none = "none of the newest 3 records of this time range has a field `colour`";
            prop_assert_eq!(hints("app=a colour=red").await, json!([none]));
            for known in ["word=elm", "app=b", "absent", "word=oak"] {
                prop_assert_eq!(hints(known).await, Value::Null, "{}", known);
            }
            prop_assert_eq!(hints("-wrod=oak").await, Value::Null, "it has records");
            Ok::<(), TestCaseError>(())
        })?;
    }

    #[test]
    fn a_check_names_the_column(_unused in Just(())) {
        runtime().block_on(async {
            let app = app(&sim::Fs::new(), 0);
            let check = async |q: &str| {
                let answer = get(&app, &format!("check?q={}", encode(q))).await;
                (answer.status.as_u16(), answer.json())
            };
            for good in ["", "level=error /x+/", "a -b"] {
                prop_assert_eq!(check(good).await, (200, json!({ "ok": true, "hints": [] })), "{}", good);
            }
            for (bad, column) in [("level= error", 7), ("a /(/", 3), ("(a", 3)] {
                let (status, answer) = check(bad).await;
                prop_assert_eq!(status, 400);
                let error = answer["error"].as_str().unwrap();
                prop_assert!(answer["column"].as_u64().unwrap() >= column && !error.is_empty(), "{} {}", bad, answer);
            }
            Ok::<(), TestCaseError>(())
        })?;
    }

    /// A time without a zone is in that of `tz`.
    #[test]
    fn times_are_in_the_given_zone(zone in prop::sample::select(vec![("", 0_i64), ("UTC", 0), ("+02:00", 2), ("-05:00", -5), ("Asia/Kolkata", 5)])) {
        runtime().block_on(async {
            let app = app(&sim::Fs::new(), 0);
            let (name, hours) = zone;
            let target = format!("histogram?buckets=1&tz={}&from=2023-11-01&to=2023-11-02", encode(name));
            let from = get(&app, &target).await.json()["buckets"][0]["from"].as_str().unwrap().to_owned();
            let got = time::parse_timestamp(&from, Millis(0), &time::TimeZone::UTC).unwrap().0 as i64;
            let minutes = if name == "Asia/Kolkata" { 30 } else { 0 };
            prop_assert_eq!(got, 1_698_796_800_000 - (hours * 60 + minutes) * 60_000);
            let answer = get(&app, "count?tz=Mars/Phobos").await;
            check_error(&answer, "tz")?;
            prop_assert!(answer.json()["error"].as_str().unwrap().starts_with("tz: expected a time zone such as"));
            Ok::<(), TestCaseError>(())
        })?;
    }

    /// The error of a group that cannot exist says which can.
    #[test]
    fn the_error_of_a_wrong_group_says_what_is_right(
        (parameters, want) in prop::sample::select(vec![
            ("by=@level&value=eror", "value: `eror` is no level; the levels are trace, debug, info, warn, error, fatal, none"),
            ("by=@stream&value=app", "value: label `app` has no `=`: write labels as k=v,k2=v2"),
            ("value=x", "value needs by: the name of the field that has the value"),
        ]),
    ) {
        runtime().block_on(async {
            let answer = get(&app(&sim::Fs::new(), 0), &format!("histogram?{parameters}")).await;
            check_error(&answer, parameters)?;
            prop_assert_eq!(answer.json(), json!({ "error": want }));
            Ok::<(), TestCaseError>(())
        })?;
    }

    /// The error of one wrong parameter names it.
    #[test]
    fn the_error_of_a_wrong_parameter_names_it(
        (path, name, value) in prop::sample::select(vec![
            ("query", "limit", "x"), ("query", "limit", "1.5"), ("query", "order", "up"), ("query", "format", "xml"),
            ("query", "from", "soon"), ("count", "to", "soon"), ("query", "after", "x"), ("query", "q", "(a"),
            ("histogram", "buckets", "0"), ("histogram", "buckets", "10001"), ("histogram", "value", "app"),
            ("context", "id", "x"), ("context", "before", "x"), ("tail", "rate", "x"), ("tail", "q", "(a"),
            ("count", "limit", "1"), ("fields", "buckets", "5"), ("streams", "limit", "10001"), ("labels", "limit", "x"), ("context", "q", "a"),
        ]),
        suffix in "[a-z]{0,8}",
    ) {
        let value = if value.parse::<f64>().is_ok() { value.to_owned() } else { format!("{value}{suffix}") };
        runtime().block_on(async {
            let id = if path == "context" && name != "id" { "id=00000000000000000000000000&" } else { "" };
            let answer = get(&app(&sim::Fs::new(), 0), &format!("{path}?{id}{name}={}", encode(&value))).await;
            check_error(&answer, name)?;
            let error = answer.json()["error"].as_str().unwrap().to_owned();
            prop_assert!(answer.status == StatusCode::BAD_REQUEST && error.contains(name), "{error}");
            Ok::<(), TestCaseError>(())
        })?;
    }
}
