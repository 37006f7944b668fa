//! Type check of `format`, whose crate writes some values in another way than the real server.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{Expr, ListExpr, LiteralValue};

use super::super::check::{Checker, Problem, expr};
use super::super::types::Type;

/// The largest precision, as in `%.2f`.
const MOST_DIGITS: u32 = 100;

impl Checker {
    /// Checks the list that `format` takes: its elements may have different types. Refuses a text
    /// that is not a literal, because its verbs are known only when the rule runs.
    pub(super) fn format_arguments(
        &mut self,
        target: &IdedExpr,
        of: &Type,
        args: Vec<IdedExpr>,
    ) -> Result<(Vec<IdedExpr>, Vec<Type>), Problem> {
        let (mut lists, mut kinds) = (Vec::new(), Vec::new());
        for arg in args {
            if let Expr::List(list) = arg.expr {
                let (elements, of_elements) = self.all(list.elements)?;
                lists.push(expr(Expr::List(ListExpr::new(elements))));
                kinds.extend(of_elements);
            } else {
                let (list, kind) = self.check(arg)?;
                lists.push(list);
                kinds.push(kind);
            }
        }
        match &target.expr {
            Expr::Literal(LiteralValue::String(text)) => check_verbs(text.inner(), &kinds)?,
            _ if matches!(of, Type::Text | Type::Dyn) => {
                return Err(Problem::Unsupported("format of a text that is not a literal".into()));
            }
            _ => {}
        }
        Ok((lists, vec![Type::list(Type::Dyn)]))
    }
}

/// Refuses verbs that the crate evaluates in another way than the real server.
fn check_verbs(text: &str, kinds: &[Type]) -> Result<(), Problem> {
    let verbs = verbs(text);
    if verbs.iter().any(|(_, verb)| *verb == 'e') {
        return Err(Problem::Unsupported("format with %e".into()));
    }
    let is_long = |digits: &str| match digits.parse::<u32>() {
        Ok(n) => n > MOST_DIGITS,
        Err(_) => !digits.is_empty(),
    };
    if verbs.iter().any(|(digits, _)| is_long(digits)) {
        let what = format!("format with a precision above {MOST_DIGITS}");
        return Err(Problem::Unsupported(what));
    }
    let kind = kinds.iter().find(|kind| differs(kind));
    if let Some(kind) = kind.filter(|_| verbs.iter().any(|(_, verb)| *verb == 's')) {
        let name = match kind {
            // The name of an object is its place in the schema.
            Type::Object(_) => "object".to_owned(),
            kind => kind.to_string(),
        };
        return Err(Problem::Unsupported(format!("format of {name} with %s")));
    }
    Ok(())
}

/// Returns the verbs of a format text with the digits of their precision.
fn verbs(text: &str) -> Vec<(&str, char)> {
    let mut verbs = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('%') {
        if let Some(after) = after.strip_prefix('%') {
            rest = after;
            continue;
        }
        let (digits, after) = match after.strip_prefix('.') {
            Some(after) => {
                let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
                after.split_at(end)
            }
            None => ("", after),
        };
        let mut chars = after.chars();
        verbs.extend(chars.next().map(|verb| (digits, verb)));
        rest = chars.as_str();
    }
    verbs
}

/// True if `%s` writes values of a type in another way than the real server, or entries in a random
/// order.
fn differs(kind: &Type) -> bool {
    match kind {
        Type::List(of, _) => differs(of),
        Type::Dyn
        | Type::Double
        | Type::Bytes
        | Type::Timestamp
        | Type::Duration
        | Type::Map(..)
        | Type::Object(_)
        | Type::Optional(_)
        | Type::Opaque(_) => true,
        _ => false,
    }
}
