//! Values in the metrics of a node.

/// The sum of a metric over its labels; `None` if there is none.
pub(super) fn value(metrics: &str, name: &str) -> Option<f64> {
    let of = |line: &str| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with(['{', ' ']).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
    };
    let values: Vec<f64> = metrics.lines().filter_map(of).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// A histogram of the node's metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MetricHistogram {
    /// Upper bounds of the buckets, the last one infinite.
    pub(super) bounds: Vec<f64>,
    /// The number of values in each bucket.
    pub(super) counts: Vec<f64>,
    /// The sum of all values.
    pub(super) sum: f64,
}

impl MetricHistogram {
    /// What was observed since an earlier reading of the same histogram.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, then)| now - then).collect();
        Self { bounds: self.bounds.clone(), counts, sum: self.sum - earlier.sum }
    }
}

/// A metric that is a histogram.
pub(super) fn histogram(metrics: &str, name: &str) -> Option<MetricHistogram> {
    let mut histogram = MetricHistogram { sum: value(metrics, &format!("{name}_sum"))?, ..MetricHistogram::default() };
    let mut below = 0.0;
    let prefix = format!("{name}_bucket{{le=\"");
    for line in metrics.lines() {
        let Some((bound, count)) = line.strip_prefix(&prefix).and_then(|rest| rest.split_once("\"} ")) else {
            continue;
        };
        let count: f64 = count.split(' ').next()?.parse().ok()?;
        histogram.bounds.push(if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? });
        histogram.counts.push(count - below);
        below = count;
    }
    Some(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read() {
        let text = "# TYPE h histogram\nh_sum 2.5\nh_count 3\nh_bucket{le=\"0.1\"} 1\nh_bucket{le=\"1.0\"} 1\n\
                    h_bucket{le=\"+Inf\"} 3\na_total{s=\"x\"} 3\na_total{s=\"y\"} 4\na_total_more 9\n";
        assert_eq!((value(text, "a_total"), value(text, "a"), value(text, "b")), (Some(7.0), None, None));
        let want = MetricHistogram { bounds: vec![0.1, 1.0, f64::INFINITY], counts: vec![1.0, 0.0, 2.0], sum: 2.5 };
        assert_eq!(histogram(text, "h"), Some(want));
        assert_eq!(histogram(text, "a"), None);
        // Bytes of a program that is no node.
        for text in
            ["", "h_sum", "h_sum \nh_bucket{le=\"", "h_sum 1\nh_bucket{le=\"x\"} 1", "h_sum 1\nh_bucket{le=\"1\"} x"]
        {
            assert!(histogram(text, "h").is_none_or(|histogram| histogram.counts.is_empty()), "{text}");
        }
    }
}
