//! Output formats.

use std::str::FromStr;

use clap::ValueEnum;

use crate::values::OutputTemplate;

/// How records are printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// The bytes as received.
    Raw,
    /// Time, labels and line.
    Text,
    /// One JSON object per line.
    Json,
    /// The placeholders of a template, filled in.
    Template(OutputTemplate),
}

impl FromStr for OutputFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "raw" => Ok(Self::Raw),
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ if text.contains(['{', '}', '\\']) => text.parse().map(Self::Template),
            _ => Err("expected raw, text, json or a template such as '{time} {label:app} {line}'".to_owned()),
        }
    }
}

/// How the answer of a call is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DocumentFormat {
    /// For people
    Text,
    /// The JSON of the node
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_parse() {
        let check = |text: &str, want: Option<OutputFormat>| assert_eq!(text.parse().ok(), want, "{text}");
        check("raw", Some(OutputFormat::Raw));
        check("text", Some(OutputFormat::Text));
        check("json", Some(OutputFormat::Json));
        check("{line}", Some(OutputFormat::Template("{line}".parse().unwrap())));
        for text in ["", "xml", "JSON", "{", "{nothing}"] {
            check(text, None);
        }
    }
}
