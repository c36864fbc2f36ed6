//! A filter expression as a condition in SQL, with its values as parameters.
//!
//! The condition is a first filter: it holds for every record that matches, and may hold for others, which the plan of the
//! query drops. A regex becomes the texts that each of its matches contains, because ClickHouse's RE2 and the `regex` crate
//! differ. Left out are levels and fields of lines, because only our scan knows them; needles with an LF, because they may span a line and an attribute; and what has no room
//! among the parameters.
//!
//! Below a negation the opposite is needed: a condition that holds for no record that does not match. Terms that are exact
//! are both.

use bucksaw_record::expr::{Field, LineTest, Literal, Pattern, Test};
use bucksaw_record::{Expr, LabelScope, Labels};
use bucksaw_scan::required_texts;

use crate::parameters::Parameters;

/// Lists of texts of a regex that become conditions, and texts of a list. More exclude hardly a row.
const REGEX_LISTS_MAX: usize = 3;
const REGEX_TEXTS_MAX: usize = 16;

/// Which error a condition may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// It holds for all records that match, and maybe for others.
    Upper,
    /// It holds for no others, and maybe not for all.
    Lower,
}

impl Bound {
    fn opposite(self) -> Self {
        match self {
            Self::Upper => Self::Lower,
            Self::Lower => Self::Upper,
        }
    }
}

/// A condition on rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct SqlFilter {
    /// In SQL; empty if it holds for every row.
    pub(crate) sql: String,
    pub(crate) parameters: Parameters,
}

impl SqlFilter {
    /// A condition that holds for all matching records of the expression, of the stream and of the scope.
    pub(crate) fn new(expr: &Expr, stream: Option<&Labels>, scope: Option<&LabelScope>) -> Self {
        let mut parameters = Parameters::default();
        let of_scope = scope.and_then(|scope| scope_condition(scope, &mut parameters));
        let of_stream = stream.and_then(|labels| stream_condition(labels, &mut parameters));
        let of_expr = condition(expr, Bound::Upper, &mut parameters);
        let conditions = of_scope.into_iter().chain(of_stream).chain(of_expr);
        let sql = conditions.collect::<Vec<_>>().join(" AND ");
        Self { sql, parameters }
    }
}

/// Whether a row is of a stream; `None` if there is no room for its labels.
fn stream_condition(labels: &Labels, parameters: &mut Parameters) -> Option<String> {
    let mut terms = vec![format!("length(labels) = {}", labels.iter().count())];
    for (name, value) in labels.iter() {
        let (name, value) = (parameters.text(name.as_bytes())?, parameters.text(value.as_bytes())?);
        terms.push(format!("labels[{name}] = {value}"));
    }
    Some(format!("({})", terms.join(" AND ")))
}

/// Whether the stream of a row is in a scope. `None` if every row may be, or if there is no room for its labels: as any other
/// condition it only spares rows, and the query checks the scope of each.
fn scope_condition(scope: &LabelScope, parameters: &mut Parameters) -> Option<String> {
    let mut terms = Vec::new();
    if !scope.labels().is_reserved() {
        terms.push(format!("NOT mapContains(labels, {})", parameters.text(Labels::RESERVED_NAME.as_bytes())?));
    }
    for (name, value) in scope.labels().iter() {
        let (name, value) = (parameters.text(name.as_bytes())?, parameters.text(value.as_bytes())?);
        terms.push(format!("labels[{name}] = {value}"));
    }
    Some(format!("({})", terms.join(" AND ")))
}

/// A condition with an error of one kind; `None` for the trivial one: true above, false below.
fn condition(expr: &Expr, bound: Bound, parameters: &mut Parameters) -> Option<String> {
    match expr {
        Expr::Literal(literal) => contains_anywhere(literal, parameters),
        Expr::Line(LineTest::Contains(literal)) => contains(literal, "line", parameters),
        Expr::Line(LineTest::NotContains(literal)) => {
            contains(literal, "line", parameters).map(|inner| format!("(NOT {inner})"))
        }
        Expr::Regex(pattern) if bound == Bound::Upper => required(pattern, contains_anywhere, parameters),
        Expr::Line(LineTest::Match(pattern)) if bound == Bound::Upper => {
            required(pattern, |literal, parameters| contains(literal, "line", parameters), parameters)
        }
        Expr::Field(field) => label_condition(field, bound, parameters),
        Expr::Not(inner) => condition(inner, bound.opposite(), parameters).map(|inner| format!("(NOT {inner})")),
        // A conjunction without some members has too many records, a disjunction too few.
        Expr::And(members) => join(members, " AND ", bound == Bound::Upper, bound, parameters),
        Expr::Or(members) => join(members, " OR ", bound == Bound::Lower, bound, parameters),
        Expr::All | Expr::Regex(_) | Expr::Level(_) | Expr::Line(_) => None,
    }
}

fn join(
    members: &[Expr],
    operator: &str,
    may_leave_out: bool,
    bound: Bound,
    parameters: &mut Parameters,
) -> Option<String> {
    let mut terms = Vec::new();
    for member in members {
        match condition(member, bound, parameters) {
            Some(term) => terms.push(term),
            None if may_leave_out => {}
            None => return None,
        }
    }
    (!terms.is_empty()).then(|| format!("({})", terms.join(operator)))
}

/// Whether a row has the texts that every match of a regex contains, at least one of each list.
fn required(
    pattern: &Pattern,
    contains: impl Fn(&Literal, &mut Parameters) -> Option<String>,
    parameters: &mut Parameters,
) -> Option<String> {
    let mut lists = Vec::new();
    // The first list is of the rarest texts.
    for texts in required_texts(pattern).into_iter().take(REGEX_LISTS_MAX) {
        if texts.len() > REGEX_TEXTS_MAX {
            continue;
        }
        let conditions: Option<Vec<String>> = texts.iter().map(|text| contains(text, parameters)).collect();
        lists.extend(conditions.map(|conditions| format!("({})", conditions.join(" OR "))));
    }
    (!lists.is_empty()).then(|| format!("({})", lists.join(" AND ")))
}

/// Whether the line or the value of an attribute contains the bytes; exact.
fn contains_anywhere(literal: &Literal, parameters: &mut Parameters) -> Option<String> {
    let line = contains(literal, "line", parameters)?;
    // The same parameter serves both.
    let value = line.replacen("(line,", "(value,", 1);
    Some(format!("({line} OR arrayExists(value -> {value}, attribute_values))"))
}

/// Whether a column contains the bytes; exact. In any case, letters other than ASCII match exactly.
fn contains(literal: &Literal, column: &str, parameters: &mut Parameters) -> Option<String> {
    let Literal { bytes, case_insensitive } = literal;
    if bytes.is_empty() || bytes.contains(&b'\n') {
        return None;
    }
    let function = match case_insensitive {
        false => "position",
        // ClickHouse's function in any case knows ASCII letters only, as ours does, but is not tested with other bytes.
        true if bytes.is_ascii() && !bytes.contains(&0) => "positionCaseInsensitive",
        true => return None,
    };
    let needle = parameters.text(bytes)?;
    Some(format!("{function}({column}, {needle}) > 0"))
}

/// A test of a field that a label of the stream settles. What an attribute or a key of the line settles is not known here.
fn label_condition(field: &Field, bound: Bound, parameters: &mut Parameters) -> Option<String> {
    let passes = |value: &str, name: &str| match field.test {
        Test::Equal(_) => Some(format!("labels[{name}] = {value}")),
        Test::NotEqual(_) => Some(format!("labels[{name}] != {value}")),
        _ => None,
    };
    let (Test::Equal(value) | Test::NotEqual(value)) = &field.test else { return None };
    let (value, name) = (parameters.text(value)?, parameters.text(field.name.as_bytes())?);
    let passes = passes(&value, &name)?;
    let otherwise = u8::from(bound == Bound::Upper);
    Some(format!("if(mapContains(labels, {name}), {passes}, {otherwise})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(expression: &str) -> String {
        SqlFilter::new(&Expr::parse(expression.as_bytes()).unwrap(), None, None).sql
    }

    #[test]
    fn values_are_never_part_of_the_text() {
        let hostile = "'); DROP TABLE records; --";
        let expression = format!("\"{hostile}\" app=\"{hostile}\" _line=~/x/");
        let filter = SqlFilter::new(&Expr::parse(expression.as_bytes()).unwrap(), None, None);
        assert!(!filter.sql.contains("DROP") && !filter.sql.contains('\''), "{}", filter.sql);
        assert!(filter.sql.contains("position(line, {p0:String}) > 0"), "{}", filter.sql);
    }

    #[test]
    fn unknown_terms_only_widen_the_filter() {
        assert_eq!(sql(""), "");
        assert_eq!(sql("/a.b/"), "");
        assert_eq!(sql("-/a.b/"), "");
        assert_eq!(sql("-/error.*/"), "");
        let any = "(position(line, {p0:String}) > 0 OR arrayExists(value -> position(value, {p0:String}) > 0, \
                   attribute_values))";
        assert_eq!(sql("error"), any);
        assert_eq!(sql("error /a.b/"), format!("({any})"));
        assert_eq!(sql("error OR /a.b/"), "");
        assert_eq!(sql("-(error OR /a.b/)"), format!("(NOT ({any}))"));
        assert_eq!(sql("-(error /a.b/)"), "");
        assert_eq!(sql("-error"), format!("(NOT {any})"));
        assert_eq!(sql("/error [0-9]/").matches("error").count(), 0);
        assert_eq!(sql("/error [0-9]/"), format!("(({any}))"));
        assert_eq!(
            sql("_line=~/error|warn/"),
            "((position(line, {p0:String}) > 0 OR position(line, {p1:String}) > 0))"
        );
        assert_eq!(sql("@level=error"), "");
    }

    #[test]
    fn labels_settle_what_they_can() {
        let label = |otherwise| {
            format!("if(mapContains(labels, {{p1:String}}), labels[{{p1:String}}] = {{p0:String}}, {otherwise})")
        };
        assert_eq!(sql("app=shop"), label(1));
        assert_eq!(sql("-app=shop"), format!("(NOT {})", label(0)));
        let filter = SqlFilter::new(&Expr::All, Some(&Labels::parse("a=1,b=2").unwrap()), None);
        assert_eq!(
            filter.sql,
            "(length(labels) = 2 AND labels[{p0:String}] = {p1:String} AND labels[{p2:String}] = {p3:String})"
        );
    }

    #[test]
    fn a_scope_is_a_condition_with_bound_values() {
        let of_scope = |labels: &str| {
            let scope = LabelScope::new(Labels::parse(labels).unwrap());
            SqlFilter::new(&Expr::All, None, Some(&scope))
        };
        assert_eq!(of_scope("").sql, "(NOT mapContains(labels, {p0:String}))");
        let filter = of_scope("env=dev,tenant=\"a' OR 1\"");
        let want = "(NOT mapContains(labels, {p0:String}) AND labels[{p1:String}] = {p2:String} AND \
                    labels[{p3:String}] = {p4:String})";
        assert_eq!(filter.sql, want);
        assert!(filter.parameters.query_string().contains("&param_p4=a%27%20OR%201"));
        assert_eq!(of_scope("_bucksaw=audit").sql, "(labels[{p0:String}] = {p1:String})");
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        let long = Expr::Literal(Literal { bytes: vec![b'x'; 20 << 10], case_insensitive: false });
        let short = Expr::Literal(Literal { bytes: b"y".to_vec(), case_insensitive: false });
        let filter = SqlFilter::new(&Expr::And(vec![long.clone(), short.clone()]), None, None);
        assert_eq!(filter.sql.matches("{p0:String}").count(), 2);
        assert_eq!(SqlFilter::new(&Expr::Or(vec![long, short]), None, None).sql, "");
    }
}
