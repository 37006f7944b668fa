//! Type check of expressions. The check also replaces what the crate `cel` evaluates in another way
//! than the real server by calls of the functions in [`functions`](super::functions).

use std::sync::Arc;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::Value;
use kube_cel::cel::common::ast::{
    CallExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, SelectExpr,
};

use super::types::{RESERVED, Type};

/// The reason why an expression cannot be compiled.
#[derive(Clone, Debug)]
pub(super) enum Problem {
    /// The expression is wrong. The text `near`, from the character `skip` on, is the place.
    Wrong { why: String, near: String, skip: usize },
    /// The real server evaluates the expression, and this store does not.
    Unsupported(String),
}

pub(super) type Checked = Result<(IdedExpr, Type), Problem>;

/// The check of one expression.
pub(super) struct Checker {
    /// Variables and their types, inner ones last.
    pub(super) scope: Vec<(String, Type)>,
    /// Number of variables that exist outside of the expression.
    pub(super) n_outer: usize,
    pub(super) uses_old: bool,
    /// Values that the changed expression reads, with the names of their variables.
    pub(super) constants: Vec<(String, Value)>,
}

pub(super) fn wrong(why: impl Into<String>, near: impl Into<String>, skip: usize) -> Problem {
    Problem::Wrong { why: why.into(), near: near.into(), skip }
}

pub(super) fn undeclared(name: &str, near: &str, skip: usize) -> Problem {
    wrong(format!("undeclared reference to '{name}' (in container '')"), near, skip)
}

pub(super) fn expr(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

pub(super) fn ident(name: &str) -> IdedExpr {
    expr(Expr::Ident(name.to_owned()))
}

pub(super) fn text(text: &str) -> IdedExpr {
    expr(Expr::Literal(LiteralValue::String(text.into())))
}

pub(super) fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

impl Checker {
    pub(super) fn check(&mut self, given: IdedExpr) -> Checked {
        let id = given.id;
        let (made, kind) = match given.expr {
            Expr::Literal(literal) => {
                let kind = literal_type(&literal);
                (Expr::Literal(literal), kind)
            }
            Expr::Ident(name) => return self.name(&name),
            Expr::Select(select) => return self.select(select),
            Expr::Call(call) => return self.call(call),
            Expr::List(list) => self.list(list)?,
            Expr::Map(map) => self.map(map)?,
            Expr::Comprehension(inner) => return self.comprehension(*inner),
            Expr::Struct(it) => {
                let near = format!("{}{{", it.type_name);
                return Err(undeclared(&it.type_name, &near, it.type_name.len()));
            }
            Expr::Unspecified => return Err(wrong("Syntax error", "", 0)),
        };
        Ok((IdedExpr { id, expr: made }, kind))
    }

    pub(super) fn variable(&self, name: &str) -> Option<usize> {
        self.scope.iter().rposition(|(known, _)| known == name)
    }

    pub(super) fn name(&mut self, name: &str) -> Checked {
        if let Some(at) = self.variable(name) {
            self.uses_old |= name == "oldSelf" && at < self.n_outer;
            return Ok((ident(name), self.scope[at].1.clone()));
        }
        let types = [
            "bool",
            "bytes",
            "double",
            "int",
            "list",
            "map",
            "null_type",
            "string",
            "type",
            "uint",
        ];
        if types.contains(&name) {
            return Ok((text(name), Type::Kind));
        }
        if name == "google" {
            return Err(Problem::Unsupported("names of protobuf types".into()));
        }
        Err(undeclared(name, name, 0))
    }

    fn select(&mut self, select: SelectExpr) -> Checked {
        let SelectExpr { operand, field, test } = select;
        let near = format!(".{field}");
        let (operand, of) = self.check(*operand)?;
        let field = field_name(&of, field);
        let (base, is_optional) = match &of {
            Type::Optional(of) => (of.as_ref(), true),
            of => (of, false),
        };
        let kind = field_type(base, &field, &near)?;
        Ok(match (is_optional, test) {
            (true, test) => {
                let chosen = call("@field", vec![operand, text(&field)]);
                match test {
                    true => (super::loops::method("hasValue", chosen), Type::Bool),
                    false => (chosen, Type::Optional(Arc::new(kind))),
                }
            }
            (false, test) => {
                let select = SelectExpr { operand: Box::new(operand), field, test };
                (expr(Expr::Select(select)), if test { Type::Bool } else { kind })
            }
        })
    }

    fn list(&mut self, list: ListExpr) -> Result<(Expr, Type), Problem> {
        let mut of = Type::Free;
        let mut elements = Vec::new();
        for (at, element) in list.elements.into_iter().enumerate() {
            let near = start(&element);
            let (element, mut kind) = self.check(element)?;
            if list.optional_indices.contains(&at) {
                kind = inside_optional(kind)?;
            }
            no_optional(&kind)?;
            of = joined(&of, &kind, &near)?;
            elements.push(element);
        }
        let list = ListExpr::new_with_optionals(elements, list.optional_indices);
        Ok((Expr::List(list), Type::list(of)))
    }

    fn map(&mut self, map: MapExpr) -> Result<(Expr, Type), Problem> {
        let (mut key, mut value) = (Type::Free, Type::Free);
        let mut entries = map.entries;
        for entry in &mut entries {
            let EntryExpr::MapEntry(entry) = &mut entry.expr else {
                return Err(wrong("Syntax error", "{", 0));
            };
            let (made, kind) = self.check(std::mem::take(&mut entry.key))?;
            entry.key = made;
            key = joined(&key, &kind, "")?;
            let near = start(&entry.value);
            let (made, mut kind) = self.check(std::mem::take(&mut entry.value))?;
            entry.value = made;
            if entry.optional {
                kind = inside_optional(kind)?;
            }
            no_optional(&kind)?;
            value = joined(&value, &kind, &near)?;
        }
        let kind = Type::Map(Arc::new(key), Arc::new(value));
        Ok((Expr::Map(MapExpr { entries }), kind))
    }
}

fn literal_type(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::Text,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

/// Returns the type of a field.
pub(super) fn field_type(of: &Type, field: &str, near: &str) -> Result<Type, Problem> {
    match of {
        Type::Object(object) => match object.fields.get(field) {
            Some(field) => Ok(field.kind.clone()),
            None => Err(wrong(format!("undefined field '{field}'"), near, 0)),
        },
        Type::Map(_, of) => Ok(of.as_ref().clone()),
        Type::Dyn | Type::Free => {
            Err(Problem::Unsupported(format!("a field ('{field}') of a value of any type")))
        }
        other => {
            let why = format!("type '{other}' does not support field selection");
            Err(wrong(why, near, 0))
        }
    }
}

/// Returns the name under which an object has a field. Expressions may write `a.namespace` for
/// `a.__namespace__`.
fn field_name(of: &Type, field: String) -> String {
    match of {
        Type::Object(object)
            if RESERVED.contains(&field.as_str()) && !object.fields.contains_key(&field) =>
        {
            format!("__{field}__")
        }
        _ => field,
    }
}

/// Returns the text by which an expression is found in the whole.
pub(super) fn start(given: &IdedExpr) -> String {
    match &given.expr {
        Expr::Ident(name) => name.clone(),
        Expr::Select(select) => format!(".{}", select.field),
        Expr::Literal(LiteralValue::Int(number)) => number.inner().to_string(),
        Expr::Literal(LiteralValue::UInt(number)) => format!("{}u", number.inner()),
        Expr::Literal(LiteralValue::String(text)) => format!("'{}'", text.inner()),
        _ => String::new(),
    }
}

pub(super) fn is_optional(kind: &Type) -> bool {
    matches!(kind, Type::Optional(_))
}

/// Refuses an optional value in a list or map, which the crate unwraps.
fn no_optional(kind: &Type) -> Result<(), Problem> {
    match is_optional(kind) {
        true => Err(Problem::Unsupported("lists and maps of optional values".into())),
        false => Ok(()),
    }
}

fn inside_optional(kind: Type) -> Result<Type, Problem> {
    match kind {
        Type::Optional(of) => Ok(of.as_ref().clone()),
        other => Err(wrong(format!("expected type 'optional_type' but found '{other}'"), "?", 0)),
    }
}

pub(super) fn joined(one: &Type, other: &Type, near: &str) -> Result<Type, Problem> {
    let why = || wrong(format!("expected type '{one}' but found '{other}'"), near, 0);
    one.join(other).ok_or_else(why)
}
