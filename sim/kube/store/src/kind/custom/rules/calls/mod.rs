//! Type check of calls of functions and operators.

mod format;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue, operators};
use kube_cel::cel::{IdedExpr, Value};

use super::check::{Checked, Checker, Problem, call, expr, ident, start, undeclared, wrong};
use super::functions::TypeHandle;
use super::program::{FUNCTIONS, in_go};
use super::signatures::signatures;
use super::types::Type;
use crate::values::patterns;

impl Checker {
    pub(super) fn call(&mut self, given: CallExpr) -> Checked {
        let CallExpr { func_name: name, target, args } = given;
        if name == operators::OPT_SELECT {
            return self.optional_select(args);
        }
        // A function of a library, such as `sets.contains`.
        let mut library = None;
        if let Some(Expr::Ident(prefix)) = target.as_deref().map(|it| &it.expr) {
            let full = format!("{prefix}.{name}");
            if self.variable(prefix).is_none() && signatures(&full).is_some() {
                library = Some(full);
            } else if self.variable(prefix).is_none() && self.name(prefix).is_err() {
                return Err(undeclared(prefix, prefix, 0));
            }
        }
        if let Some(full) = library {
            let near = format!("{name}(");
            let (args, kinds) = self.all(args)?;
            let kind = resolve(&full, None, &kinds, &near)?;
            let is_free = |it: &Type| matches!(it, Type::List(of, _) if of.has_free_order());
            if kinds.iter().any(is_free) {
                return Err(of_free_order(&full));
            }
            if full == "lists.range" {
                return Ok((call("@range", args), kind));
            }
            let target = Some(Box::new(ident(full.split('.').next().unwrap_or_default())));
            let made = CallExpr { func_name: name, target, args };
            return Ok((expr(Expr::Call(made)), kind));
        }
        match target {
            None => self.function(name, args),
            Some(target) => self.member(name, *target, args),
        }
    }

    fn all(&mut self, args: Vec<IdedExpr>) -> Result<(Vec<IdedExpr>, Vec<Type>), Problem> {
        let checked: Result<Vec<_>, _> = args.into_iter().map(|it| self.check(it)).collect();
        Ok(checked?.into_iter().unzip())
    }

    fn function(&mut self, name: String, args: Vec<IdedExpr>) -> Checked {
        let (mut args, kinds) = self.all(args)?;
        let near = near(&name);
        let kind = resolve(&name, None, &kinds, &near)?;
        let takes = |at: usize| kinds.get(at).is_some_and(Type::has_free_order);
        match name.as_str() {
            // The left side decides whether the order counts.
            operators::EQUALS | operators::NOT_EQUALS if takes(0) => {
                args = args.into_iter().map(|arg| self.ordered(arg, &kinds[0])).collect();
            }
            operators::ADD if takes(0) || takes(1) => return Err(of_free_order("+")),
            operators::IN if takes(0) => return Err(of_free_order("in")),
            "string" if matches!(kinds.first(), Some(Type::Opaque(_))) => {
                let target = args.pop().map(Box::new);
                let made = CallExpr { func_name: name, target, args };
                return Ok((expr(Expr::Call(made)), kind));
            }
            "matches" => return self.matches(args).map(|made| (made, kind)),
            "size" | "type" | "dyn" | "bool" | "string" | "int" | "uint" | "double" => {
                let made = call(&format!("@{name}"), args);
                return folded(made, "").map(|made| (made, kind));
            }
            "isCIDR" | "cidr" | "isQuantity" | "quantity" => {
                return Ok((call(&format!("@{name}"), args), kind));
            }
            "duration" | "timestamp" => {
                let near = args.first().map(start).unwrap_or_default();
                let why = format!("invalid {name} argument");
                return folded(call(&format!("@{name}"), args), &near)
                    .map(|made| (made, kind))
                    .map_err(|_| wrong(why, near, 0));
            }
            _ => {}
        }
        Ok((call(&name, args), kind))
    }

    fn member(&mut self, name: String, target: IdedExpr, args: Vec<IdedExpr>) -> Checked {
        if let ("optMap" | "optFlatMap", [_, _]) = (name.as_str(), args.as_slice()) {
            return self.optional_map(&name, target, args);
        }
        let macros = ["all", "exists", "exists_one", "existsOne", "sortBy"];
        if macros.contains(&name.as_str()) || name.starts_with("transform") {
            let n = args.len();
            return Err(Problem::Unsupported(format!("{name} with {n} arguments")));
        }
        let (target, of) = self.check(target)?;
        let (mut args, kinds) = match (name.as_str(), &args[..]) {
            ("format", [_]) => self.format_arguments(&target, &of, args)?,
            _ => self.all(args)?,
        };
        let near = format!("{name}(");
        let kind = resolve(&name, Some(&of), &kinds, &near)?;
        let is_free = matches!(&of, Type::List(of, _) if of.has_free_order());
        if is_free && matches!(name.as_str(), "indexOf" | "lastIndexOf" | "distinct") {
            return Err(of_free_order(&name));
        }
        if name == "matches" {
            args.insert(0, target);
            return self.matches(args).map(|made| (made, kind));
        }
        if name == "split" || name == "replace" {
            args.insert(0, target);
            return Ok((call(&format!("@{name}"), args), kind));
        }
        if name == "size" {
            return Ok((call("@size", vec![target]), kind));
        }
        let is_sum = matches!(name.as_str(), "add" | "sub");
        let made = CallExpr { func_name: name, target: Some(Box::new(target)), args };
        let made = expr(Expr::Call(made));
        Ok((if is_sum { call("@bounded", vec![made]) } else { made }, kind))
    }

    /// Returns `given` with its lists of type set or map in one order.
    fn ordered(&mut self, given: IdedExpr, of: &Type) -> IdedExpr {
        let handle = Value::Opaque(Arc::new(TypeHandle(Arc::new(of.clone()))));
        let name = self.constant(handle);
        call("@ordered", vec![given, name])
    }

    /// Adds a value that the expression reads; returns the name of its variable.
    fn constant(&mut self, value: Value) -> IdedExpr {
        let name = format!("@constant{}", self.constants.len());
        self.constants.push((name.clone(), value));
        ident(&name)
    }

    /// Replaces a call of `matches`, whose patterns the crate reads in another way.
    fn matches(&mut self, args: Vec<IdedExpr>) -> Result<IdedExpr, Problem> {
        if let Some(Expr::Literal(LiteralValue::String(pattern))) = args.get(1).map(|it| &it.expr)
            && patterns::compile(pattern.inner()).is_err()
        {
            return Err(wrong("invalid matches argument", "matches(", 8));
        }
        Ok(call("@matches", args))
    }
}

fn of_free_order(what: &str) -> Problem {
    Problem::Unsupported(format!("{what} of lists of type set or map"))
}

/// Evaluates a conversion of a literal, as the real server does when it compiles an expression.
fn folded(made: IdedExpr, near: &str) -> Result<IdedExpr, Problem> {
    let Expr::Call(CallExpr { args, .. }) = &made.expr else { return Ok(made) };
    if args.iter().all(|arg| matches!(arg.expr, Expr::Literal(_)))
        && let Err(error) = FUNCTIONS.resolve(&made)
    {
        let why = format!("program instantiation failed: {}", in_go(error));
        return Err(wrong(why, near, 0));
    }
    Ok(made)
}

/// Returns the text by which a function or operator is found in an expression.
fn near(name: &str) -> String {
    let operator = name.trim_matches(['_', '@']);
    match name {
        operators::CONDITIONAL => "?".into(),
        operators::IN => " in ".into(),
        _ if name.starts_with(['_', '!', '-', '@']) => operator.replace("[_]", "["),
        _ => format!("{name}("),
    }
}

/// Returns the type of a call's result.
///
/// # Errors
/// No signature of the function fits the arguments, or this store does not evaluate the function.
fn resolve(name: &str, of: Option<&Type>, kinds: &[Type], near: &str) -> Result<Type, Problem> {
    let row = match name {
        operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => operators::LESS,
        operators::NOT_EQUALS => operators::EQUALS,
        name => name,
    };
    let skip = near.len().saturating_sub(1);
    let skip = if near.ends_with('(') { skip } else { near.len() - near.trim_start().len() };
    let Some(known) = signatures(row) else { return Err(undeclared(name, near, skip)) };
    let mut result: Option<Type> = None;
    for signature in known {
        let mut bound = BTreeMap::new();
        let fits_receiver = match (&signature.receiver, of) {
            (None, None) => true,
            (Some(wanted), Some(of)) => wanted.fits(of, &mut bound),
            _ => false,
        };
        let fits = fits_receiver
            && signature.takes.len() == kinds.len()
            && signature.takes.iter().zip(kinds).all(|(wanted, it)| wanted.fits(it, &mut bound));
        if !fits {
            continue;
        }
        let is_any = kinds.iter().any(|it| matches!(it, Type::Dyn));
        if !signature.is_evaluated && is_any && known.iter().any(|it| it.is_evaluated) {
            continue;
        }
        if !signature.is_evaluated {
            let takes: Vec<String> = kinds.iter().map(Type::to_string).collect();
            return Err(Problem::Unsupported(format!("{name}({})", takes.join(", "))));
        }
        let returns = signature.returns.filled(&bound);
        result = Some(match result {
            None => returns,
            Some(before) if before.to_string() == returns.to_string() => before,
            Some(_) => Type::Dyn,
        });
    }
    let nests = |it: &Type| matches!(it, Type::Optional(of) if matches!(**of, Type::Optional(_)));
    if result.as_ref().is_some_and(nests) {
        return Err(Problem::Unsupported("optional values of optional values".into()));
    }
    result.ok_or_else(|| {
        let takes: Vec<String> = kinds.iter().map(Type::to_string).collect();
        let takes = takes.join(", ");
        let takes = of.map_or_else(|| format!("({takes})"), |of| format!("{of}.({takes})"));
        let why = format!("found no matching overload for '{name}' applied to '{takes}'");
        wrong(why, near, skip)
    })
}
