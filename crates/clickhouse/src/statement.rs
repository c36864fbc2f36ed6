//! A statement as it is sent: its text, parameters, settings and data.

use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::parameters::Parameters;

/// A statement for ClickHouse.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    /// The text. It has no value of a user in it.
    pub(crate) sql: String,
    pub(crate) parameters: Parameters,
    /// Names and values, none of them from a user.
    pub(crate) settings: Vec<(&'static str, String)>,
    /// The rows of an insert.
    pub(crate) data: Option<Bytes>,
    /// Whether the rows are compressed by zstd.
    pub(crate) is_compressed: bool,
}

impl Statement {
    /// A statement without data.
    pub(crate) fn new(sql: impl Into<String>) -> Self {
        Self {
            sql: sql.into(),
            parameters: Parameters::default(),
            settings: Vec::new(),
            data: None,
            is_compressed: false,
        }
    }

    /// A question: it changes nothing, and ClickHouse ends it when the connection closes.
    pub(crate) fn question(sql: impl Into<String>, parameters: Parameters) -> Self {
        let settings =
            vec![("readonly", "2".to_owned()), ("cancel_http_readonly_queries_on_client_close", "1".to_owned())];
        Self { parameters, settings, ..Self::new(sql) }
    }

    pub(crate) fn with_setting(mut self, name: &'static str, value: impl ToString) -> Self {
        self.settings.push((name, value.to_string()));
        self
    }

    pub(crate) fn with_data(self, data: Vec<u8>) -> Self {
        Self { data: Some(data.into()), ..self }
    }

    pub(crate) fn with_compressed_data(self, data: Vec<u8>) -> Self {
        Self { is_compressed: true, ..self.with_data(data) }
    }

    /// The target of the request, and its body. Text goes into the body, unless data is there.
    pub(crate) fn request(self) -> (String, Bytes) {
        let mut target = "/?".to_owned();
        let escape = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        for (name, value) in &self.settings {
            target += &format!("{name}={}&", escape(value));
        }
        let parameters = self.parameters.query_string();
        match self.data {
            Some(data) => (format!("{target}query={}{parameters}", escape(&self.sql)), data),
            None => (target + parameters.trim_start_matches('&'), self.sql.into()),
        }
    }
}
