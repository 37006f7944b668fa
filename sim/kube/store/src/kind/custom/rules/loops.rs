//! Type check of macros that bind a variable: `all`, `exists`, `map`, `filter`, `optMap`, and of
//! the optional selection `.?`.

use std::sync::Arc;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue, operators};

use super::check::{
    Checked, Checker, Problem, call, expr, field_type, is_optional, joined, start, text, wrong,
};
use super::types::Type;

impl Checker {
    /// Checks an expanded macro.
    ///
    /// In the real server an error in one element of `all` and `exists` counts only if no other
    /// element decides the result. The crate stops at the first error, so that `@or` and `@and`
    /// keep an error as the result, and `@settled` raises it.
    pub(super) fn comprehension(&mut self, given: ComprehensionExpr) -> Checked {
        let near = start(&given.iter_range);
        let (range, of) = self.check(given.iter_range)?;
        let (range, element) = match of {
            Type::List(of, _) => (range, of.as_ref().clone()),
            // The keys of a map come in a random order.
            Type::Map(key, _) => (call("@keys", vec![range]), key.as_ref().clone()),
            Type::Dyn | Type::Free => (call("@keys", vec![range]), Type::Dyn),
            other => {
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                return Err(wrong(why, near, 0));
            }
        };
        let (init, starts_as) = self.check(given.accu_init)?;
        let depth = self.scope.len();
        if is_optional(&element) || is_optional(&starts_as) {
            // The crate unwraps an optional in a variable.
            return Err(Problem::Unsupported("loops over optional values".into()));
        }
        self.scope.push((given.accu_var.clone(), starts_as.clone()));
        self.scope.push((given.iter_var.clone(), element));
        let made = self.steps(given.loop_cond, given.loop_step, &starts_as, depth);
        let (condition, step, kind) = match made {
            Ok(made) => made,
            Err(problem) => {
                self.scope.truncate(depth);
                return Err(problem);
            }
        };
        self.scope.truncate(depth + 1);
        let result = self.check(given.result);
        self.scope.truncate(depth);
        let (result, returns) = result?;
        if let Some((condition, element)) = appended(&step, &given.accu_var) {
            let made = call("@map", vec![text(&given.iter_var), range, condition, element]);
            return Ok((made, kind));
        }
        let is_settled = matches!(&step.expr, Expr::Call(call) if call.func_name.starts_with('@'));
        let result = if is_settled { call("@settled", vec![result]) } else { result };
        let made = ComprehensionExpr {
            iter_range: range,
            iter_var: given.iter_var,
            iter_var2: given.iter_var2,
            accu_var: given.accu_var,
            accu_init: init,
            loop_cond: condition,
            loop_step: step,
            result,
        };
        let returns = if returns.to_string() == kind.to_string() { kind } else { returns };
        Ok((expr(Expr::Comprehension(Box::new(made))), returns))
    }

    /// Checks the condition and the step of a loop; returns both and the type of the result.
    fn steps(
        &mut self,
        condition: IdedExpr,
        step: IdedExpr,
        starts_as: &Type,
        depth: usize,
    ) -> Result<(IdedExpr, IdedExpr, Type), Problem> {
        let (condition, _) = self.check(condition)?;
        let condition = call("@counted", vec![condition]);
        let (mut step, steps_to) = self.check(step)?;
        let kind = joined(starts_as, &steps_to, "")?;
        self.scope[depth].1 = kind.clone();
        if let Expr::Call(CallExpr { func_name, args, .. }) = &mut step.expr
            && matches!(&args[..], [first, _] if matches!(&first.expr, Expr::Ident(name) if name.starts_with('@')))
        {
            match func_name.as_str() {
                operators::LOGICAL_OR => "@or".clone_into(func_name),
                operators::LOGICAL_AND => "@and".clone_into(func_name),
                _ => {}
            }
        }
        Ok((condition, step, kind))
    }

    /// Checks `operand.?field`, which the crate evaluates to an error if the field is missing.
    pub(super) fn optional_select(&mut self, args: Vec<IdedExpr>) -> Checked {
        let mut args = args.into_iter();
        let (Some(operand), Some(field)) = (args.next(), args.next()) else {
            return Err(wrong("Syntax error", ".?", 0));
        };
        let Expr::Literal(LiteralValue::String(name)) = &field.expr else {
            return Err(wrong("unsupported optional field selection", ".?", 0));
        };
        let name = name.inner().to_owned();
        let (operand, of) = self.check(operand)?;
        let base = match &of {
            Type::Optional(of) => of.as_ref(),
            of => of,
        };
        let kind = field_type(base, &name, &format!(".?{name}"))?;
        Ok((call("@field", vec![operand, field]), Type::Optional(Arc::new(kind))))
    }

    /// Checks `target.optMap(name, expression)` and `optFlatMap`, which the crate does not know.
    pub(super) fn optional_map(
        &mut self,
        name: &str,
        target: IdedExpr,
        args: Vec<IdedExpr>,
    ) -> Checked {
        let near = format!("{name}(");
        let mut args = args.into_iter();
        let (Some(IdedExpr { expr: Expr::Ident(variable), .. }), Some(inner)) =
            (args.next(), args.next())
        else {
            let why = format!("{name}() variable name must be a simple identifier");
            return Err(wrong(why, near, 0));
        };
        let (target, of) = self.check(target)?;
        let Type::Optional(of) = of else {
            let why = format!("found no matching overload for '{name}' applied to '{of}'");
            return Err(wrong(why, near, 0));
        };
        self.scope.push((variable.clone(), of.as_ref().clone()));
        let checked = self.check(inner);
        self.scope.pop();
        let (inner, kind) = checked?;
        let kind = match (name, kind) {
            ("optFlatMap", kind @ Type::Optional(_)) => kind,
            ("optFlatMap", other) => {
                let why = format!("expected type 'optional_type' but found '{other}'");
                return Err(wrong(why, near, 0));
            }
            (_, kind) => Type::Optional(Arc::new(kind)),
        };
        Ok((call(&format!("@{name}"), vec![text(&variable), target, inner]), kind))
    }
}

/// Splits the step of `map` or `filter` into its condition and the element that it adds. The crate
/// copies the list in each step.
fn appended(step: &IdedExpr, accu: &str) -> Option<(IdedExpr, IdedExpr)> {
    let Expr::Call(CallExpr { func_name, args, .. }) = &step.expr else { return None };
    match (func_name.as_str(), args.as_slice()) {
        (operators::CONDITIONAL, [condition, then, _]) => {
            appended(then, accu).map(|(_, element)| (condition.clone(), element))
        }
        (operators::ADD, [before, list]) => match (&before.expr, &list.expr) {
            (Expr::Ident(name), Expr::List(list)) if name == accu => {
                let [element] = list.elements.as_slice() else { return None };
                let always = expr(Expr::Literal(LiteralValue::Boolean(true.into())));
                Some((always, element.clone()))
            }
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn method(name: &str, target: IdedExpr) -> IdedExpr {
    let target = Some(Box::new(target));
    expr(Expr::Call(CallExpr { func_name: name.to_owned(), target, args: Vec::new() }))
}
