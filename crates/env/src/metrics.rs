//! Declares the metrics of a crate.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// Declares a struct of metrics and its function `register`. Each field is a metric of the same name, with its help text. A
/// metric begins with its default, or with the value in parentheses before its help text. Without a help text it is not
/// registered.
///
/// ```
/// use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
/// bucksaw_env::metrics! {
///     /// Metrics of gates.
///     pub struct Metrics {
///         /// How often a gate was opened.
///         pub opened: Counter = "Gates opened";
///         open: Gauge = "Gates that are open";
///     }
/// }
/// let metrics = Metrics::register(&mut prometheus_client::registry::Registry::default());
/// assert_eq!(metrics.opened.inc() + metrics.open.inc() as u64, 0);
/// ```
#[macro_export]
macro_rules! metrics {
    ($(#[$attribute:meta])* $visible:vis struct $metrics:ident {
        $($(#[$field_attribute:meta])* $field_visible:vis $name:ident: $kind:ty $(= $(($initial:expr))? $help:literal)?;)*
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug)]
        $visible struct $metrics {
            $($(#[$field_attribute])* $field_visible $name: $kind,)*
        }

        impl $metrics {
            /// Creates the metrics and registers them.
            $visible fn register(registry: &mut prometheus_client::registry::Registry) -> Self {
                let metrics = Self { $($name: $crate::metrics!(@initial $($($initial)?)?),)* };
                $($(registry.register(stringify!($name), $help, metrics.$name.clone());)?)*
                metrics
            }
        }
    };
    (@initial) => { std::default::Default::default() };
    (@initial $initial:expr) => { $initial };
}

/// The label of a metric with several series: its name and a value.
pub type MetricLabel = [(&'static str, &'static str); 1];

/// Creates a series for each value of a label, so that it is exported as 0 before its first event.
pub fn create_series<M: Clone>(
    family: &Family<MetricLabel, M>,
    label: &'static str,
    values: impl IntoIterator<Item = &'static str>,
) {
    values.into_iter().for_each(|value| drop(family.get_or_create(&[(label, value)])));
}

/// Sets a gauge to a number of any size.
pub fn set_gauge(gauge: &Gauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}
