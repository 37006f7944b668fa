//! Text tables whose columns are as wide as their widest cell.

/// Alignment of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    /// Right-aligned, for numbers.
    Right,
}

/// Formats rows of cells as lines of text, without trailing spaces.
pub(super) fn columns<const N: usize>(aligns: [Align; N], rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).zip(aligns).map(|((cell, width), align)| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_as_wide_as_its_widest_cell() {
        let rows = [["NAME", "CALLS", "NODE"], ["a", "1000000", ""], ["a-long-name", "7", "é (x)"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(
            columns([Align::Left, Align::Right, Align::Left], &rows),
            "NAME           CALLS  NODE\n\
             a            1000000\n\
             a-long-name        7  é (x)\n"
        );
    }
}
