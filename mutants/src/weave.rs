//! Weaves all mutants of a file into one text. A mutant takes effect only if its number is the
//! active one, so that hundreds of mutants need only one build.
//!
//! Two comments with the number of the mutant enclose each changed piece. They lead from an error
//! of the compiler to the mutant.

use std::ops::Range;

/// Code that is put around a piece of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrap {
    /// The piece; empty for a pure insertion.
    pub(crate) range: Range<usize>,
    /// Code before the piece. `@` stands for the condition that this mutant is active.
    pub(crate) before: String,
    /// Code after the piece.
    pub(crate) after: String,
}

impl Wrap {
    /// True if two pieces overlap and neither is within the other.
    pub(crate) fn crosses(&self, other: &Self) -> bool {
        let (a, b) = (&self.range, &other.range);
        let (first, second) = if a.start <= b.start { (a, b) } else { (b, a) };
        first.start < second.start && second.start < first.end && first.end < second.end
    }
}

/// Returns the source with all wraps around their pieces, each with the number of its mutant.
pub(crate) fn weave(source: &str, wraps: &[(u32, &Wrap)]) -> String {
    let mut order: Vec<usize> = (0..wraps.len()).collect();
    order.sort_by_key(|&i| {
        let range = &wraps[i].1.range;
        (range.start, !range.is_empty(), std::cmp::Reverse(range.end), i)
    });
    let mut text = String::with_capacity(source.len() * 2);
    // Wraps that are open at this place, innermost last.
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    for i in order {
        let range = &wraps[i].1.range;
        close(&mut text, source, &mut at, &mut open, wraps, range.start, range.is_empty());
        text.push_str(&source[at..range.start]);
        at = range.start;
        begin(&mut text, wraps[i]);
        open.push(i);
    }
    close(&mut text, source, &mut at, &mut open, wraps, source.len(), false);
    text.push_str(&source[at..]);
    text
}

/// Closes the wraps in `open` that end before or at `place`: appends the source from `at` to the
/// end of each wrap and the code after it to `text`, moves `at` to this end, and removes the wrap
/// from `open`. If `inserts` is true, leaves open a wrap around a piece that ends at `place`.
fn close(
    text: &mut String,
    source: &str,
    at: &mut usize,
    open: &mut Vec<usize>,
    wraps: &[(u32, &Wrap)],
    place: usize,
    inserts: bool,
) {
    while let Some(&last) = open.last() {
        let (number, wrap) = wraps[last];
        let end = wrap.range.end;
        // An insertion at the end of a piece still belongs to the wrap around that piece.
        let is_over = end < place || end == place && !(inserts && wrap.range.start < end);
        if !is_over {
            return;
        }
        text.push_str(&source[*at..end]);
        *at = end;
        text.push_str(&wrap.after);
        text.push_str(&mark(number));
        open.pop();
    }
}

fn begin(text: &mut String, (number, wrap): (u32, &Wrap)) {
    text.push_str(&mark(number));
    text.push_str(&wrap.before.replace('@', &format!("crate::woven::active({number})")));
}

fn mark(number: u32) -> String {
    format!("/*mutant {number}*/")
}

/// Returns the number of the innermost mutant whose text contains this byte of a woven source;
/// `None` if the byte is in no mutant.
pub(crate) fn owner(woven: &str, byte: usize) -> Option<u32> {
    let mut open: Vec<u32> = Vec::new();
    let mut rest = 0;
    while let Some(found) = woven[rest..].find("/*mutant ") {
        let start = rest + found;
        if start >= byte {
            break;
        }
        let digits = start + "/*mutant ".len();
        let end = digits + woven[digits..].find("*/")?;
        let number = woven[digits..end].parse().ok()?;
        match open.last() {
            Some(&last) if last == number => {
                open.pop();
            }
            _ => open.push(number),
        }
        rest = end + 2;
    }
    open.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap(range: Range<usize>, before: &str, after: &str) -> Wrap {
        Wrap { range, before: before.to_owned(), after: after.to_owned() }
    }

    fn plain(woven: &str) -> String {
        woven.replace("crate::woven::active", "on")
    }

    #[test]
    fn a_wrap_around_an_inner_piece_stays_inside_the_outer_wrap() {
        let source = "a == b && c";
        let outer = wrap(0..11, "(if @ { a == b || c } else { ", " })");
        let inner = wrap(0..6, "(if @ { a != b } else { ", " })");
        let woven = weave(source, &[(1, &outer), (2, &inner)]);
        assert_eq!(
            plain(&woven),
            "/*mutant 1*/(if on(1) { a == b || c } else { /*mutant 2*/(if on(2) { a != b } else { \
             a == b })/*mutant 2*/ && c })/*mutant 1*/"
        );
    }

    #[test]
    fn the_owner_of_a_byte_is_the_innermost_mutant_around_it() {
        let source = "a == b && c";
        let outer = wrap(0..11, "(if @ { OUTER } else { ", " })");
        let inner = wrap(0..6, "(if @ { INNER } else { ", " })");
        let woven = weave(source, &[(7, &outer), (12, &inner)]);
        let of = |what: &str| owner(&woven, woven.find(what).expect("part of the text"));
        assert_eq!((of("OUTER"), of("INNER"), of("&& c")), (Some(7), Some(12), Some(7)));
        assert_eq!(owner(&woven, woven.len()), None);
    }

    #[test]
    fn an_insertion_before_another_mutant_stays_outside_of_it() {
        let woven =
            weave("{ab}", &[(1, &wrap(1..1, "if @ { return; }", "")), (2, &wrap(1..2, "<", ">"))]);
        let short = woven.replace("/*mutant ", "[").replace("*/", "]");
        assert_eq!(plain(&short), "{[1]if on(1) { return; }[1][2]<a>[2]b}");
    }
}
