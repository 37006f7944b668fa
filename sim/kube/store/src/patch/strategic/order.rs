//! Order of the elements of a merged list.

use serde_json::Value;

use super::{DIRECTIVE, Problem, no_merge_key};

/// True if two elements have the same value of `key`, or if they are equal and `key` is empty.
fn is_same(a: &Value, b: &Value, key: &str) -> bool {
    if key.is_empty() { a == b } else { a.get(key) == b.get(key) }
}

fn index(list: &[Value], element: &Value, key: &str) -> Option<usize> {
    list.iter().position(|other| is_same(other, element, key))
}

/// Checks that the elements of the patch's list have the order that the patch sets by
/// `$setElementOrder`. Ignores an empty `order`, and elements that contain `$patch`.
///
/// # Errors
/// The real server's text if an element is missing from `order` or has another place there.
pub(super) fn check(patch: &[Value], order: &[Value], key: &str) -> Result<(), Problem> {
    if order.is_empty() || patch.is_empty() {
        return Ok(());
    }
    let is_plain = |element: &&Value| element.get(DIRECTIVE).is_none();
    let mut rest = patch.iter().filter(is_plain).peekable();
    for wanted in order {
        if rest.peek().is_some_and(|element| is_same(element, wanted, key)) {
            rest.next();
        }
    }
    match rest.next() {
        None => Ok(()),
        Some(_) => Err(Problem::Other(format!(
            "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
            crate::values::text::go(&Value::Array(patch.to_vec())),
            crate::values::text::go(&Value::Array(order.to_vec())),
        ))),
    }
}

/// Orders `merged`: elements that `patch_order` contains follow that order, the other elements
/// follow `server_order`. Of two elements from different groups, the one in `patch_order` comes
/// first, unless `server_order` has both in the other order.
///
/// # Errors
/// The real server's text if an element is not a map with `key`. An empty `key` allows any element.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: &str,
) -> Result<Vec<Value>, Problem> {
    if !key.is_empty() {
        for element in merged.iter().chain(patch_order).chain(server_order) {
            match element {
                Value::Object(map) if map.contains_key(key) => {}
                Value::Object(map) => return Err(no_merge_key(map, key)),
                other => {
                    return Err(Problem::Other(format!(
                        "expected a map, but received a {}",
                        super::go_type(other)
                    )));
                }
            }
        }
    }
    let (mut ours, mut theirs): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|element| index(patch_order, element, key).is_some());
    ours.sort_by_key(|element| index(patch_order, element, key));
    theirs.sort_by_key(|element| index(server_order, element, key));
    let mut arranged = Vec::with_capacity(ours.len() + theirs.len());
    let (mut ours, mut theirs) = (ours.into_iter().peekable(), theirs.into_iter().peekable());
    loop {
        let from_server = match (theirs.peek(), ours.peek()) {
            (None, None) => return Ok(arranged),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(left), Some(right)) => {
                let (left, right) =
                    (index(server_order, left, key), index(server_order, right, key));
                matches!((left, right), (Some(left), Some(right)) if left < right)
            }
        };
        arranged.extend(if from_server { theirs.next() } else { ours.next() });
    }
}
