//! Sorts OpenMetrics text, because the encoder's order differs between runs of the same build.

use std::collections::BTreeMap;

#[derive(Default)]
struct Family<'a> {
    head: Vec<&'a str>,
    /// Lines of each metric, by the labels of the metric.
    metrics: BTreeMap<&'a str, Vec<&'a str>>,
}

/// Sorts families by name, and the metrics of a family by labels. The lines of one metric (such as
/// the buckets of a histogram) keep the encoder's order, because the format prescribes it.
pub(super) fn sorted(text: &str) -> String {
    let mut families: BTreeMap<&str, Family<'_>> = BTreeMap::new();
    let mut name = "";
    for line in text.lines().filter(|line| *line != "# EOF") {
        if line.starts_with('#') {
            name = line.split(' ').nth(2).unwrap_or_default();
            families.entry(name).or_default().head.push(line);
        } else {
            let metrics = &mut families.entry(name).or_default().metrics;
            metrics.entry(labels(line)).or_default().push(line);
        }
    }
    let mut out = String::new();
    for Family { head, metrics } in families.values() {
        for line in head.iter().chain(metrics.values().flatten()) {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.push_str("# EOF\n");
    out
}

/// Returns the labels of a line, without the label `le` of a bucket, which the encoder puts first.
fn labels(line: &str) -> &str {
    let inner = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}'));
    let inner = inner.map_or("", |(labels, _)| labels);
    match inner.strip_prefix("le=\"").and_then(|rest| rest.split_once('"')) {
        Some((_, rest)) => rest.trim_start_matches(','),
        None => inner,
    }
}
