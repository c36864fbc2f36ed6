//! Templates of records, such as `{time} {label:app} {field:status} {line}`.

use std::str::FromStr;

/// A template, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputTemplate(pub(crate) Vec<OutputPart>);

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputPart {
    /// Text that is printed as it is.
    Text(String),
    Time,
    Id,
    Line,
    /// All labels, as on the command line.
    Labels,
    /// The value of a label.
    Label(String),
    /// The value of a label, else of a key of the line.
    Field(String),
}

const PLACEHOLDERS: &str = "{time}, {id}, {labels}, {label:NAME}, {field:NAME} or {line}";

impl FromStr for OutputTemplate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut chars = text.chars().zip(1..).peekable();
        while let Some((char, column)) = chars.next() {
            let next = chars.peek().map(|(char, _)| *char);
            let escaped = match (char, next) {
                ('{', Some('{')) | ('}', Some('}')) | ('\\', Some('\\')) => Some(char),
                ('\\', Some('t')) => Some('\t'),
                ('\\', Some('n')) => Some('\n'),
                _ => None,
            };
            match (escaped, char) {
                (Some(escaped), _) => {
                    chars.next();
                    plain.push(escaped);
                }
                (None, '\\') => {
                    return Err(format!("column {column}: expected \\t, \\n or \\\\ for a backslash"));
                }
                (None, '}') => return Err(format!("column {column}: found }} without {{: write }}}} for a brace")),
                (None, '{') => {
                    let mut name = String::new();
                    loop {
                        match chars.next() {
                            Some(('}', _)) => break,
                            Some((char, _)) => name.push(char),
                            None => {
                                return Err(format!(
                                    "column {column}: expected }} to close {{: write {{{{ for a brace"
                                ));
                            }
                        }
                    }
                    if !plain.is_empty() {
                        parts.push(OutputPart::Text(std::mem::take(&mut plain)));
                    }
                    let part = placeholder(&name);
                    parts.push(part.ok_or_else(|| {
                        format!("column {column}: {{{name}}} is no placeholder: expected {PLACEHOLDERS}")
                    })?);
                }
                (None, char) => plain.push(char),
            }
        }
        if !plain.is_empty() {
            parts.push(OutputPart::Text(plain));
        }
        Ok(Self(parts))
    }
}

fn placeholder(name: &str) -> Option<OutputPart> {
    Some(match name.split_once(':') {
        None => match name {
            "time" => OutputPart::Time,
            "id" => OutputPart::Id,
            "line" => OutputPart::Line,
            "labels" => OutputPart::Labels,
            _ => return None,
        },
        Some(("label", name)) if !name.is_empty() => OutputPart::Label(name.to_owned()),
        Some(("field", name)) if !name.is_empty() => OutputPart::Field(name.to_owned()),
        Some(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_parse() {
        let text = |text: &str| OutputPart::Text(text.to_owned());
        let check = |template: &str, want: Vec<OutputPart>| {
            assert_eq!(template.parse::<OutputTemplate>().unwrap().0, want, "{template}");
        };
        check("{time} {line}", vec![OutputPart::Time, text(" "), OutputPart::Line]);
        check(
            "{{{label:app}}}\\t\\n\\\\{field:a.b}é",
            vec![
                text("{"),
                OutputPart::Label("app".to_owned()),
                text("}\t\n\\"),
                OutputPart::Field("a.b".to_owned()),
                text("é"),
            ],
        );
        check("{id}{labels}", vec![OutputPart::Id, OutputPart::Labels]);
    }

    #[test]
    fn errors_have_a_column() {
        let check = |template: &str, want: &str| {
            let error = template.parse::<OutputTemplate>().unwrap_err();
            assert!(error.starts_with(want), "{template}: {error}");
        };
        check("é{", "column 2: expected } to close {");
        check("ab}", "column 3: found } without {");
        check("{line} {lin}", "column 8: {lin} is no placeholder: expected {time}");
        check("{}", "column 1: {} is no placeholder");
        check("{label:}", "column 1: {label:} is no placeholder");
        check("{line}\\x", "column 7: expected \\t, \\n or \\\\");
        check("a\\", "column 2: expected \\t");
    }
}
