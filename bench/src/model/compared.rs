//! Figures that are predicted and measured, side by side.

use crate::results::{Figure, figure};

/// A figure with the names of its prediction and of the ratio of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compared {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    predicted: &'static str,
    ratio: &'static str,
}

macro_rules! compared {
    ($name:literal, $unit:literal) => {
        Compared { name: $name, unit: $unit, predicted: concat!($name, "_predicted"), ratio: concat!($name, "_ratio") }
    };
}

/// All figures that any scenario compares.
const COMPARED: [Compared; 22] = [
    compared!("cpu", "cores"),
    compared!("ack_mean", "ms"),
    compared!("ack_p99", "ms"),
    compared!("question_mean", "ms"),
    compared!("question_p99", "ms"),
    compared!("ack_knee", "MB/s"),
    compared!("question_knee", "1/s"),
    compared!("accepted", "MB/s"),
    compared!("records", "1/s"),
    compared!("consumed", "times"),
    compared!("copies", "times"),
    compared!("cpu_of_ingest_nodes", "cores"),
    compared!("cpu_of_busiest_ingest", "cores"),
    compared!("cpu_of_stores", "cores"),
    compared!("cpu_of_busiest_store", "cores"),
    compared!("written_by_ingest_nodes", "MB/s"),
    compared!("written_by_stores", "MB/s"),
    compared!("segments_written", "MB/s"),
    compared!("found_mean", "ms"),
    compared!("found_p99", "ms"),
    compared!("queued", "MB"),
    compared!("in_queue_mean", "s"),
];

/// The measured figures, each with its prediction and the prediction over the measurement, if it was predicted.
pub(super) fn beside(measured: &[Figure], predicted: impl Fn(&str) -> Option<f64>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for found in measured {
        figures.push(*found);
        let Some(compared) = COMPARED.iter().find(|compared| compared.name == found.name) else { continue };
        let Some(want) = predicted(found.name) else { continue };
        figures.push(figure(compared.predicted, compared.unit, want));
        figures.push(figure(compared.ratio, "times", want / found.value));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_its_prediction_and_the_ratio_beside_it() {
        let measured = [figure("cpu", "cores", 0.5), figure("ack_mean", "ms", 2.0), figure("sender", "cores", 0.1)];
        let figures = beside(&measured, |name| (name == "cpu").then_some(0.25));
        let names: Vec<_> = figures.iter().map(|figure| (figure.name, figure.value)).collect();
        let want = [("cpu", 0.5), ("cpu_predicted", 0.25), ("cpu_ratio", 0.5), ("ack_mean", 2.0), ("sender", 0.1)];
        assert_eq!(names, want);
    }

    #[test]
    fn figures_have_names_of_their_own() {
        let mut names = COMPARED.map(|compared| compared.name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
