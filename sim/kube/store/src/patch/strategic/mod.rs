//! Strategic merge patches, which merge lists of maps by key and contain directives to delete,
//! replace and order.
//!
//! Follows `kubernetes/apimachinery: pkg/util/strategicpatch/patch.go`, `mergeMap` and the
//! functions that it calls, including the order of elements: elements of the patch come before
//! elements that only the object has, unless the object already has both in the other order.

mod order;

use std::fmt;

use serde_json::{Map, Value};

use super::rejected;
use crate::schema::{Struct, Types};
use crate::values::text::{go, go_map, go_type};
use crate::{MergeRule, Status};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch. `rules` name the lists that merge; a patch replaces other
/// lists, except that `$deleteFromPrimitiveList` deletes elements from any list.
///
/// # Errors
/// 400 if the patch is neither a map nor null, if `$retainKeys` is not a list with all fields that
/// the patch sets, or if `$deleteFromPrimitiveList` or `$setElementOrder` names no field. 422 for
/// lists of lists. 500 with the real server's text for other problems, such as an element without
/// its merge key.
pub fn strategic_merge_patch(
    document: &Value,
    patch: &Value,
    rules: &[MergeRule],
) -> Result<Value, Status> {
    merge_by(document, patch, &|path| {
        Some(match rules.iter().find(|rule| rule.path() == path)? {
            MergeRule::ByKey { key, .. } => key,
            MergeRule::Set { .. } => "",
        })
    })
}

/// Applies a strategic merge patch to an object of a built-in kind, whose types define how lists
/// merge. The errors are those of [`strategic_merge_patch`].
pub(crate) fn typed_merge_patch(
    document: &Value,
    patch: &Value,
    root: &Struct,
) -> Result<Value, Status> {
    let types = Types::builtin();
    merge_by(document, patch, &|path| {
        let field = types.field(root, path).filter(|field| field.merges)?;
        Some(field.merge_key.unwrap_or_default())
    })
}

fn merge_by(
    document: &Value,
    patch: &Value,
    merge_key: &dyn Fn(&str) -> Option<&'static str>,
) -> Result<Value, Status> {
    let patch = match patch {
        Value::Object(patch) => patch,
        // Go reads null as an empty map.
        Value::Null => return Ok(document.clone()),
        other => {
            let found = crate::values::text::json_type(other);
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    let document = document.as_object().cloned().unwrap_or_default();
    let merger = Merger { merge_key };
    let merged = merger.merge_map(document, patch.clone(), "").map_err(Status::from)?;
    Ok(Value::Object(merged))
}

/// Reason why a patch cannot be applied.
#[derive(Debug, PartialEq)]
enum Problem {
    RetainKeys,
    PrimitiveList,
    SetElementOrder,
    ListOfLists,
    Other(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RetainKeys => "invalid patch format of retainKeys",
            Self::PrimitiveList => "invalid patch format of primitive list",
            Self::SetElementOrder => "invalid patch format of setElementOrder list",
            Self::ListOfLists => "lists of lists are not supported",
            Self::Other(text) => text,
        })
    }
}

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::ListOfLists => rejected(),
            Problem::Other(text) => Self::new(500, "", text),
            other => Self::bad_request(other.to_string()),
        }
    }
}

type Object = Map<String, Value>;

/// Treatment of a list in a patch.
#[derive(Clone, Copy)]
enum Strategy {
    Replace,
    /// Merges maps by this key, or scalars as a set if the key is empty.
    Merge(&'static str),
}

struct Merger<'a> {
    /// Returns the merge key of the list at a path, if the list merges; empty for a set.
    merge_key: &'a dyn Fn(&str) -> Option<&'static str>,
}

impl Merger<'_> {
    fn strategy(&self, path: &str) -> Strategy {
        (self.merge_key)(path).map_or(Strategy::Replace, Strategy::Merge)
    }

    fn merge_map(
        &self,
        mut ours: Object,
        mut patch: Object,
        path: &str,
    ) -> Result<Object, Problem> {
        match patch.get(DIRECTIVE) {
            None => {}
            Some(Value::String(directive)) if directive == "replace" => {
                patch.shift_remove(DIRECTIVE);
                return Ok(patch);
            }
            Some(Value::String(directive)) if directive == "delete" => return Ok(Object::new()),
            Some(other) => return Err(unknown_directive(other, &patch)),
        }
        retain_keys(&mut ours, &mut patch)?;
        self.merge_ordered(&mut ours, &mut patch, path)?;
        for (field, value) in patch {
            let (field, deletes) = match directed(&field, DELETE_FROM) {
                None => (field, false),
                Some(Some(list)) => (list.to_owned(), true),
                Some(None) => return Err(Problem::PrimitiveList),
            };
            if value.is_null() {
                ours.shift_remove(&field);
                continue;
            }
            let here = join(path, &field);
            let merged = match (ours.get_mut(&field).map(Value::take), value) {
                (Some(Value::Object(old)), Value::Object(new)) => {
                    Some(Value::Object(self.merge_map(old, new, &here)?))
                }
                (Some(Value::Array(old)), Value::Array(new)) => {
                    Some(Value::Array(self.merge_list(old, new, &here, deletes)?))
                }
                // The object has no list from which the patch could delete.
                (old, _) if deletes => old,
                (_, value) => without_directives(without_nulls(value)),
            };
            match merged {
                Some(value) => {
                    ours.insert(field, value);
                }
                None => {
                    ours.shift_remove(&field);
                }
            }
        }
        Ok(ours)
    }

    /// Merges and orders those lists of `ours` for which `patch` sets an order. Removes these lists
    /// and the orders from `patch`. Fails if an order is not a list or names no field, or if a list
    /// does not merge or has another order.
    fn merge_ordered(
        &self,
        ours: &mut Object,
        patch: &mut Object,
        path: &str,
    ) -> Result<(), Problem> {
        let ordered: Vec<String> =
            patch.keys().filter(|field| directed(field, SET_ORDER).is_some()).cloned().collect();
        for directive in ordered {
            let order = match patch.shift_remove(&directive) {
                Some(Value::Array(order)) => order,
                other => return Err(wrong_list(other.as_ref().unwrap_or(&Value::Null))),
            };
            let Some(Some(field)) = directed(&directive, SET_ORDER) else {
                return Err(Problem::SetElementOrder);
            };
            let here = join(path, field);
            let old = list_of(ours.get(field))?;
            let new = list_of(patch.get(field))?;
            let (Strategy::Merge(_) | Strategy::Replace) = self.strategy(&here);
            let key = match self.strategy(&here) {
                Strategy::Merge(key) => key,
                Strategy::Replace => "",
            };
            order::check(new.as_deref().unwrap_or_default(), &order, key)?;
            let server_order = old.clone().unwrap_or_default();
            let merged = match (old, new) {
                (None, None) => continue,
                (Some(old), None) => old,
                (None, Some(new)) => match without_directives(Value::Array(new)) {
                    Some(Value::Array(new)) => new,
                    _ => continue,
                },
                (Some(old), Some(new)) => self.merge_list(old, new, &here, false)?,
            };
            element_kind(&server_order, &merged)?;
            let arranged = order::arrange(merged, &order, &server_order, key)?;
            ours.insert(field.to_owned(), Value::Array(arranged));
            patch.shift_remove(field);
        }
        Ok(())
    }

    fn merge_list(
        &self,
        old: Vec<Value>,
        new: Vec<Value>,
        path: &str,
        deletes: bool,
    ) -> Result<Vec<Value>, Problem> {
        let key = match self.strategy(path) {
            Strategy::Merge(key) => key,
            Strategy::Replace if deletes => "",
            Strategy::Replace => return Ok(new),
        };
        if old.is_empty() && new.is_empty() {
            return Ok(old);
        }
        if !element_kind(&old, &new)? {
            if deletes {
                return Ok(old.into_iter().filter(|value| !new.contains(value)).collect());
            }
            let server_order = old.clone();
            let mut merged: Vec<Value> = Vec::new();
            for value in old.into_iter().chain(new.iter().cloned()) {
                if !merged.contains(&value) {
                    merged.push(value);
                }
            }
            return order::arrange(merged, &new, &server_order, "");
        }
        if key.is_empty() {
            let name = path.rsplit('.').next().unwrap_or_default();
            return Err(Problem::Other(format!("cannot merge lists without merge key for {name}")));
        }
        let (old, new) = special_elements(old, new, key)?;
        let server_order = old.clone();
        let mut merged = old;
        for element in &new {
            let Value::Object(element) = element else { continue };
            let value = element.get(key).ok_or_else(|| no_merge_key(element, key))?;
            match merged.iter_mut().find(|existing| existing.get(key) == Some(value)) {
                Some(existing) => {
                    let mine = match existing.take() {
                        Value::Object(mine) => mine,
                        _ => Object::new(),
                    };
                    *existing = Value::Object(self.merge_map(mine, element.clone(), path)?);
                }
                None => merged.push(Value::Object(element.clone())),
            }
        }
        order::arrange(merged, &new, &server_order, key)
    }
}

/// Returns `Some(Some(field))` if `name` is `<directive>/field`, `Some(None)` if the directive has
/// no field, and `None` if `name` does not begin with the directive.
fn directed<'a>(name: &'a str, directive: &str) -> Option<Option<&'a str>> {
    let rest = name.strip_prefix(directive)?;
    Some(rest.strip_prefix('/'))
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

fn retain_keys(ours: &mut Object, patch: &mut Object) -> Result<(), Problem> {
    let Some(keys) = patch.shift_remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else { return Err(Problem::RetainKeys) };
    let is_kept = |field: &str| keys.iter().any(|key| key.as_str() == Some(field));
    for (field, value) in patch.iter() {
        let is_directive = field.starts_with(DELETE_FROM) || field.starts_with(SET_ORDER);
        if !value.is_null() && !is_directive && !is_kept(field) {
            return Err(Problem::RetainKeys);
        }
    }
    ours.retain(|field, _| is_kept(field));
    Ok(())
}

/// Applies the elements of the patch's list that contain `$patch`. Returns the old and the new list
/// that remain to be merged. After `replace`, the old list consists of the patch's other elements,
/// and the new list is empty.
///
/// # Errors
/// If an element is not a map, if `$patch` is neither `delete` nor `replace`, or if an element to
/// delete has no field `key`.
fn special_elements(
    mut old: Vec<Value>,
    new: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Problem> {
    let mut plain = Vec::new();
    let mut replaces = false;
    for element in new {
        let Some(map) = element.as_object() else {
            return Err(wrong_list(&element));
        };
        match map.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
            None => plain.push(element),
            Some("delete") => {
                let value = map.get(key).ok_or_else(|| no_merge_key(map, key))?;
                old.retain(|existing| existing.get(key) != Some(value));
            }
            Some("replace") => replaces = true,
            Some("merge") => {
                return Err(Problem::Other(
                    "merging lists cannot yet be specified in the patch".into(),
                ));
            }
            Some(_) => return Err(unknown_directive(&map[DIRECTIVE], map)),
        }
    }
    Ok(if replaces { (plain, Vec::new()) } else { (old, plain) })
}

/// Returns true for lists of maps, and false for lists of scalars and for empty lists.
///
/// # Errors
/// If not all elements of both lists have the same type, or if an element is a list.
fn element_kind(old: &[Value], new: &[Value]) -> Result<bool, Problem> {
    let mut kind: Option<&'static str> = None;
    for element in old.iter().chain(new) {
        if element.is_array() {
            return Err(Problem::ListOfLists);
        }
        let found = go_type(element);
        if *kind.get_or_insert(found) != found {
            return Err(Problem::Other(format!(
                "list element types are not identical: {}",
                go(&Value::Array(old.iter().chain(new).cloned().collect()))
            )));
        }
    }
    Ok(kind == Some("map"))
}

fn list_of(value: Option<&Value>) -> Result<Option<Vec<Value>>, Problem> {
    match value {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list.clone())),
        Some(other) => Err(wrong_list(other)),
    }
}

fn wrong_list(found: &Value) -> Problem {
    Problem::Other(format!("expected a slice, but received a {}", go_type(found)))
}

fn no_merge_key(element: &Object, key: &str) -> Problem {
    let shown = go_map(element);
    Problem::Other(format!("map: {shown} does not contain declared merge key: {key}"))
}

fn unknown_directive(directive: &Value, map: &Object) -> Problem {
    Problem::Other(format!("unknown patch type: {} in map: {}", go(directive), go_map(map)))
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(field, value)| (field, without_nulls(value))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Returns a value of the patch for a place without an old value, without the maps that contain
/// `$patch`; `None` if the value itself is one of these maps.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let keep = |(field, value)| Some((field, without_directives(value)?));
            Some(Value::Object(map.into_iter().filter_map(keep).collect()))
        }
        Value::Array(list) => {
            Some(Value::Array(list.into_iter().filter_map(without_directives).collect()))
        }
        other => Some(other),
    }
}
