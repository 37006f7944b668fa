//! Metrics and health of a replica at one moment.

use std::collections::BTreeMap;

use sim::world::Time;

/// Metrics and health of one replica at one moment.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// Time of the scrape.
    pub at: Time,
    /// Index of the replica.
    pub replica: usize,
    /// Sequence number that the next record of the ledger had at that time.
    pub next_seq: u64,
    /// Content of `/metrics`, in the OpenMetrics text format.
    pub metrics: String,
    /// Checks of `/livez`.
    pub live: Checks,
    /// Checks of `/readyz`.
    pub ready: Checks,
}

/// Checks of a health endpoint by name; a failed check has the reason.
pub type Checks = Vec<(String, Result<(), String>)>;

/// One line of a scrape: a value of a metric with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Name, with the suffixes of OpenMetrics (`_total`, `_count`, `_sum`, `_bucket`).
    pub name: String,
    /// Labels by name.
    pub labels: BTreeMap<String, String>,
    /// Value of the metric.
    pub value: f64,
}

impl Scrape {
    /// Returns every sample of the metrics. Leaves out lines that are not samples.
    pub fn samples(&self) -> Vec<Sample> {
        self.metrics.lines().filter_map(sample).collect()
    }

    /// Returns the failing checks of `/readyz`, with the reasons.
    pub fn unready(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ready.iter().filter_map(|(name, outcome)| Some((&**name, &**outcome.as_ref().err()?)))
    }
}

/// Parses a line of the text format; returns `None` for comments and lines of another form.
fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.strip_suffix('}')?;
    Some(Sample { name: name.to_owned(), labels: pairs(labels), value: value.parse().ok()? })
}

/// Parses labels such as `a="1",b="2"`. In a value, `\"`, `\\` and `\n` stand for a quote, a
/// backslash and a line break.
fn pairs(mut text: &str) -> BTreeMap<String, String> {
    let mut pairs = BTreeMap::new();
    while let Some((name, rest)) = text.split_once("=\"") {
        let mut value = String::new();
        let mut letters = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => match letters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, other)) => value.push(other),
                    None => {}
                },
                other => value.push(other),
            }
        }
        pairs.insert(name.trim_start_matches(',').to_owned(), value);
        text = &rest[end..];
    }
    pairs
}

/// Returns the sum of the values of the metric `name` in those samples whose labels include all of
/// `labels`; zero without such samples.
pub fn sum(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |it: &&Sample| {
        it.name == name
            && labels.iter().all(|(key, value)| it.labels.get(*key).is_some_and(|it| it == value))
    };
    samples.iter().filter(fits).map(|it| it.value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_metrics_is_parsed_with_its_labels() {
        let read =
            |line| sample(line).map(|it| (it.name, it.labels.into_iter().collect(), it.value));
        let pairs = |it: &[(&str, &str)]| -> Vec<(String, String)> {
            it.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        for (name, line, wanted) in [
            ("no labels", "a_total 3", Some(("a_total".to_owned(), vec![], 3.0))),
            (
                "labels",
                r#"a{b="c",d="e"} 0.5"#,
                Some(("a".into(), pairs(&[("b", "c"), ("d", "e")]), 0.5)),
            ),
            (
                "a quote",
                r#"a{b="c\"d} ,\\"} 1"#,
                Some(("a".into(), pairs(&[("b", "c\"d} ,\\")]), 1.0)),
            ),
            ("a comment", "# HELP a b 3", None),
            ("no value", "a{b=\"c\"} x", None),
            ("the end", "# EOF", None),
        ] {
            assert_eq!(read(line), wanted, "{name}");
        }
    }

    #[test]
    fn sums_are_over_series_with_the_wanted_labels() {
        let text = "a{x=\"1\",y=\"1\"} 1\na{x=\"1\",y=\"2\"} 2\na{x=\"2\"} 4\nb{x=\"1\"} 8\n";
        let samples: Vec<Sample> = text.lines().filter_map(sample).collect();
        for (labels, wanted) in [
            (&[][..], 7.0),
            (&[("x", "1")], 3.0),
            (&[("x", "1"), ("y", "2")], 2.0),
            (&[("z", "1")], 0.0),
        ] {
            assert_eq!(sum(&samples, "a", labels), wanted, "{labels:?}");
        }
    }
}
