//! Compilation and evaluation of one expression.

use std::cell::Cell;
use std::sync::LazyLock;

use kube_cel::cel::{Context, ExecutionError, IdedExpr, Value};

use super::check::{Checker, Problem};
use super::functions;
use super::parse::parse;
use super::types::Type;

/// The functions that all expressions share.
pub(super) static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(functions::context);

/// The most steps of all loops of an expression. The real server stops an expression whose cost
/// exceeds this number, and each step costs at least 1.
const MOST_STEPS: u32 = 1_000_000;

thread_local! {
    /// Steps of the loops of the expression that runs on this thread.
    static STEPS: Cell<u32> = const { Cell::new(0) };
}

/// Counts a step of a loop; returns the condition of the loop.
pub(super) fn counted(condition: Value) -> Result<Value, ExecutionError> {
    STEPS.set(STEPS.get().saturating_add(1));
    if STEPS.get() > MOST_STEPS { Err(ExecutionError::NoSuchOverload) } else { Ok(condition) }
}

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Program {
    expression: IdedExpr,
    constants: Vec<(String, Value)>,
    /// True if the expression reads `oldSelf`.
    pub(super) uses_old: bool,
}

/// The reason why an expression has no program.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The expression is wrong; the text is that of the real server's compiler.
    Wrong(String),
    /// This store lacks the named feature.
    Unsupported(String),
}

impl Program {
    /// Compiles an expression in which `self` is a value of type `of`, and `oldSelf` as well, or an
    /// optional of this type with `is_optional`. Returns the program and the type of its result.
    pub(super) fn compile(
        source: &str,
        of: &Type,
        is_optional: bool,
    ) -> Result<(Self, Type), Refusal> {
        let parsed = parse(source)?;
        let old = if is_optional { Type::Optional(of.clone().into()) } else { of.clone() };
        let scope = vec![("self".to_owned(), of.clone()), ("oldSelf".to_owned(), old)];
        let n_outer = scope.len();
        let mut checker = Checker { scope, n_outer, uses_old: false, constants: Vec::new() };
        let (expression, kind) = checker.check(parsed).map_err(|problem| match problem {
            Problem::Unsupported(what) => Refusal::Unsupported(what),
            // The text of an error outside of the compiler has no place.
            Problem::Wrong { why, .. } if why.starts_with("program instantiation") => {
                Refusal::Wrong(why)
            }
            Problem::Wrong { why, near, skip } => {
                Refusal::Wrong(shown(source, place(source, &near, skip), &why))
            }
        })?;
        let Checker { uses_old, constants, .. } = checker;
        Ok((Self { expression, constants, uses_old }, kind))
    }

    /// Evaluates the expression with the variables of `context`.
    ///
    /// # Errors
    /// The real server's error text.
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Value, String> {
        STEPS.set(0);
        let result = self.resolve(context);
        if STEPS.get() > MOST_STEPS {
            // A loop around the last step, or `||`, may have dropped the error.
            return Err(format!(
                "this simulated API server stops an expression after {MOST_STEPS} steps of loops"
            ));
        }
        result
    }

    fn resolve(&self, context: &Context<'_>) -> Result<Value, String> {
        if self.constants.is_empty() {
            return context.resolve(&self.expression).map_err(in_go);
        }
        let mut context = context.new_inner_scope();
        for (name, value) in &self.constants {
            context.add_variable_from_value(name.as_str(), value.clone());
        }
        context.resolve(&self.expression).map_err(in_go)
    }
}

/// Returns line and column, from 1 on, of the first `near` in `source` that is a word of its own.
fn place(source: &str, near: &str, skip: usize) -> (usize, usize) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_whole = |at: &usize| {
        let before = source[..*at].chars().next_back();
        let after = source[at + near.len()..].chars().next();
        let joins_left = near.starts_with(is_word) && before.is_some_and(is_word);
        let joins_right = near.ends_with(is_word) && after.is_some_and(is_word);
        !joins_left && !joins_right
    };
    let found = source.match_indices(near).map(|(at, _)| at).find(is_whole);
    let at = found.map_or(0, |at| at + skip);
    let before = &source[..at.min(source.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}

/// Returns an error of the compiler with its place.
pub(super) fn shown(source: &str, (line, column): (usize, usize), why: &str) -> String {
    let text = source.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let dots = ".".repeat(column.saturating_sub(1));
    format!("ERROR: <input>:{line}:{column}: {why}\n | {text}\n | {dots}^")
}

/// Returns the real server's text for an error of an evaluation.
pub(super) fn in_go(error: ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(Value::Int(at)) => format!("index out of bounds: {at}"),
        ExecutionError::DivisionByZero(_) => "division by zero".into(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".into(),
        ExecutionError::Overflow(_, Value::UInt(_), _) => "unsigned integer overflow".into(),
        ExecutionError::Overflow(..) => "integer overflow".into(),
        ExecutionError::FunctionError { message, .. } => message,
        ExecutionError::InvalidArgumentCount { .. }
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::NotSupportedAsMethod { .. }
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::NoSuchOverload
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedMapIndex(_)
        | ExecutionError::UnsupportedListIndex(_)
        | ExecutionError::UnsupportedIndex(..) => "no such overload".into(),
        other => other.to_string(),
    }
}
