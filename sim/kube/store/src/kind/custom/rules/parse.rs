//! Parsing of expressions, with limits that protect the stack.

use std::thread;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr};
use kube_cel::cel::parser::Parser;

use super::program::{Refusal, shown};

/// The longest expression, in characters, as in the real server.
const LONGEST: usize = 100_000;
/// The longest expression that this store parses, in characters. A longer one could need more than
/// [`STACK`].
const LONGEST_HERE: usize = 10_000;
/// The deepest nesting of brackets, as in the real server.
const MOST_BRACKETS: usize = 250;
/// The deepest nesting of a parsed expression. The check and each evaluation need stack for it.
const MOST_LEVELS: usize = 60;
/// Stack for the parser, which needs some 40 KiB for each bracket if it is not optimized.
const STACK: usize = 64 << 20;

/// Parses an expression.
pub(super) fn parse(source: &str) -> Result<IdedExpr, Refusal> {
    let size = source.chars().count();
    if size > LONGEST {
        return Err(Refusal::Wrong(format!(
            "ERROR: <input>:-1:0: expression code point size exceeds limit: size: {size}, limit {LONGEST}"
        )));
    }
    if brackets(source) > MOST_BRACKETS {
        return Err(Refusal::Wrong(format!(
            "ERROR: <input>:-1:0: expression recursion limit exceeded: {MOST_BRACKETS}"
        )));
    }
    if size > LONGEST_HERE {
        let what = format!("expressions of more than {LONGEST_HERE} characters");
        return Err(Refusal::Unsupported(what));
    }
    // The parser is a pure function; a thread of its own gives it enough stack.
    thread::scope(|scope| {
        let parser = thread::Builder::new().stack_size(STACK);
        let running = parser.spawn_scoped(scope, || parse_here(source));
        let unparsed = || Refusal::Unsupported("an expression that its parser cannot read".into());
        running.ok().and_then(|it| it.join().ok()).unwrap_or_else(|| Err(unparsed()))
    })
}

fn parse_here(source: &str) -> Result<IdedExpr, Refusal> {
    let parser = Parser::new().enable_optional_syntax(true).max_recursion_depth(250);
    let parsed = parser.parse(source).map_err(|errors| {
        let lines = errors.errors.iter().map(|error| {
            let (line, column) = error.pos;
            let at = (usize::try_from(line).unwrap_or(1), usize::try_from(column).unwrap_or(1));
            shown(source, at, &error.msg)
        });
        Refusal::Wrong(lines.collect::<Vec<_>>().join("\n"))
    })?;
    if levels(&parsed) > MOST_LEVELS {
        let what = format!("expressions nested deeper than {MOST_LEVELS} levels");
        return Err(Refusal::Unsupported(what));
    }
    Ok(parsed)
}

/// Returns the deepest nesting of brackets. Counts brackets in texts too.
fn brackets(source: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for c in source.chars() {
        match c {
            '(' | '[' | '{' | '?' => depth += 1,
            ')' | ']' | '}' | ':' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Returns the number of levels of an expression.
fn levels(given: &IdedExpr) -> usize {
    let inside: Vec<&IdedExpr> = match &given.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map
            .entries
            .iter()
            .flat_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
                EntryExpr::StructField(field) => vec![&field.value],
            })
            .collect(),
        Expr::Comprehension(it) => {
            vec![&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result]
        }
        _ => Vec::new(),
    };
    1 + inside.into_iter().map(levels).max().unwrap_or(0)
}
