//! Finds the places for mutants in a source: those of cargo-mutants, and single statements that can
//! be left out.

use std::collections::BTreeMap;
use std::ops::Range;

use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprBinary, ExprLit, ExprMatch, ExprUnary, ImplItemFn,
    ItemFn, ItemImpl, ItemMod, Lit, Meta, MetaNameValue, Pat, Signature, Stmt, Token, TraitItemFn,
    UnOp,
};

use crate::values;
use crate::weave::Wrap;

/// A small bug that can be woven into a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// The file, from the root of the workspace.
    pub(crate) file: String,
    /// The line, from 1.
    pub(crate) line: usize,
    /// Description with the function around it; unique in its file, and unchanged when lines move.
    pub(crate) what: String,
    /// The change of the source.
    pub(crate) wrap: Wrap,
}

impl Mutant {
    /// Name of the mutant in results and reports.
    pub(crate) fn name(&self) -> String {
        format!("{}: {}", self.file, self.what)
    }
}

/// Mutants of a file, and the modules of the file that get no mutants.
#[derive(Debug)]
pub(crate) struct FoundMutants {
    pub(crate) mutants: Vec<Mutant>,
    /// Names of modules in separate files that exist only for tests, fuzzing or the feature
    /// `mutants`.
    pub(crate) tests: Vec<String>,
}

/// Finds all mutants of a source.
pub(crate) fn find(file: &str, source: &str) -> syn::Result<FoundMutants> {
    let parsed = syn::parse_file(source)?;
    let mut finder =
        Finder { source, file, path: Vec::new(), mutants: Vec::new(), tests: Vec::new() };
    finder.visit_file(&parsed);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut mutants = finder.mutants;
    for mutant in &mut mutants {
        let n = seen.entry(mutant.what.clone()).or_default();
        *n += 1;
        if *n > 1 {
            mutant.what = format!("{} (#{n})", mutant.what);
        }
    }
    Ok(FoundMutants { mutants, tests: finder.tests })
}

struct Finder<'a> {
    source: &'a str,
    file: &'a str,
    /// Types and functions around the current place.
    path: Vec<String>,
    mutants: Vec<Mutant>,
    tests: Vec<String>,
}

impl Finder<'_> {
    fn text(&self, range: Range<usize>) -> &str {
        &self.source[range]
    }

    fn text_of(&self, it: &impl Spanned) -> String {
        self.text(it.span().byte_range()).to_owned()
    }

    fn add(&mut self, range: Range<usize>, what: String, before: String, after: String) {
        let line = 1 + self.source[..range.start].matches('\n').count();
        let what = match self.path.last() {
            None => what,
            Some(_) => format!("{what} in {}", self.path.join("::")),
        };
        let wrap = Wrap { range, before, after };
        self.mutants.push(Mutant { file: self.file.to_owned(), line, what, wrap });
    }

    /// Adds a mutant that replaces an expression.
    fn swap(&mut self, expr: &impl Spanned, what: String, with: &str) {
        let range = expr.span().byte_range();
        self.add(range, what, format!("(if @ {{ {with} }} else {{ "), " })".to_owned());
    }

    /// Adds the mutants of a function: wrong results, and those in its body. Functions for tests
    /// and functions that are `const` or `unsafe` get none.
    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        if is_test(attributes) || signature.constness.is_some() || signature.unsafety.is_some() {
            return;
        }
        self.path.push(signature.ident.to_string());
        let opens = block.span().byte_range().start + 1;
        let body = self.text(opens..block.span().byte_range().end - 1).trim().to_owned();
        if !body.is_empty() {
            for value in values::wrong_results(&signature.output) {
                if value == body {
                    continue;
                }
                let what = format!("return {value}");
                self.add(
                    opens..opens,
                    what,
                    format!(" if @ {{ return {value}; }} "),
                    String::new(),
                );
            }
        }
        visit::visit_block(self, block);
        self.path.pop();
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, it: &'ast ItemFn) {
        if it.sig.ident != "main" {
            self.function(&it.attrs, &it.sig, &it.block);
        }
    }

    fn visit_impl_item_fn(&mut self, it: &'ast ImplItemFn) {
        self.function(&it.attrs, &it.sig, &it.block);
    }

    fn visit_trait_item_fn(&mut self, it: &'ast TraitItemFn) {
        if let Some(block) = &it.default {
            self.function(&it.attrs, &it.sig, block);
        }
    }

    fn visit_item_impl(&mut self, it: &'ast ItemImpl) {
        let described = it.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if is_test(&it.attrs) || described.is_some_and(|it| it.ident == "Debug") {
            return;
        }
        self.path.push(self.text_of(&*it.self_ty).split('<').next().unwrap_or_default().to_owned());
        visit::visit_item_impl(self, it);
        self.path.pop();
    }

    fn visit_item_mod(&mut self, it: &'ast ItemMod) {
        match (&it.content, is_test(&it.attrs)) {
            (Some(_), false) => visit::visit_item_mod(self, it),
            (None, true) => self.tests.push(it.ident.to_string()),
            _ => {}
        }
    }

    // The compiler computes these values, so they cannot depend on the active mutant.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}

    fn visit_expr_binary(&mut self, it: &'ast ExprBinary) {
        let operator = self.text_of(&it.op);
        if !(has_let(&it.left) || has_let(&it.right)) {
            let (left, right) = (self.text_of(&*it.left), self.text_of(&*it.right));
            for other in others(&it.op) {
                let what = format!("{operator} becomes {other}");
                self.swap(it, what, &format!("({left}) {other} ({right})"));
            }
        }
        visit::visit_expr_binary(self, it);
    }

    fn visit_expr_unary(&mut self, it: &'ast ExprUnary) {
        let sign = match it.op {
            UnOp::Not(_) => "!",
            UnOp::Neg(_) => "-",
            _ => return visit::visit_expr_unary(self, it),
        };
        let operand = self.text_of(&*it.expr);
        self.swap(it, format!("{sign} left out"), &operand);
        visit::visit_expr_unary(self, it);
    }

    fn visit_expr_match(&mut self, it: &'ast ExprMatch) {
        let catch_all = it.arms.iter().rposition(|arm| arm.guard.is_none() && is_open(&arm.pat));
        for (i, arm) in it.arms.iter().enumerate() {
            self.guard(arm, catch_all.is_some_and(|last| i < last));
        }
        visit::visit_expr_match(self, it);
    }

    fn visit_stmt(&mut self, it: &'ast Stmt) {
        if let Stmt::Expr(expr, Some(_)) = it
            && is_act(expr)
        {
            let text = self.text_of(expr).split_whitespace().collect::<Vec<_>>().join(" ");
            let short: String = text.chars().take(60).collect();
            let range = it.span().byte_range();
            self.add(range, format!("left out: {short}"), "if !@ { ".to_owned(), " }".to_owned());
        }
        visit::visit_stmt(self, it);
    }
}

impl Finder<'_> {
    /// Adds the mutants of an arm of a match. An arm with a guard gets one mutant in which the
    /// guard is always true and one in which it is always false, or none if the guard has a `let`.
    /// An arm without a guard gets, if `can_go`, one mutant without the arm.
    fn guard(&mut self, arm: &Arm, can_go: bool) {
        let pattern = self.text_of(&arm.pat).split_whitespace().collect::<Vec<_>>().join(" ");
        let short: String = pattern.chars().take(60).collect();
        match &arm.guard {
            Some((_, guard)) if !has_let(guard) => {
                let range = guard.span().byte_range();
                for (what, before) in [("true", "@ || ("), ("false", "!@ && (")] {
                    let what = format!("guard of {short} is {what}");
                    self.add(range.clone(), what, format!("({before}"), "))".to_owned());
                }
            }
            Some(_) => {}
            None if can_go => {
                let end = arm.pat.span().byte_range().end;
                self.add(end..end, format!("no arm {short}"), " if !@ ".to_owned(), String::new());
            }
            None => {}
        }
    }
}

/// Returns the operators that replace an operator in mutants.
fn others(it: &BinOp) -> &'static [&'static str] {
    match it {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["==", ">", "<="],
        BinOp::Gt(_) => &["==", "<", ">="],
        BinOp::Le(_) => &[">", "<"],
        BinOp::Ge(_) => &["<", ">"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+", "/"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["%", "*"],
        BinOp::Rem(_) => &["/", "+"],
        BinOp::BitAnd(_) => &["|", "^"],
        BinOp::BitOr(_) => &["&", "^"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::AddAssign(_) => &["-=", "*="],
        BinOp::SubAssign(_) => &["+=", "/="],
        BinOp::MulAssign(_) => &["+=", "/="],
        BinOp::BitOrAssign(_) => &["&=", "^="],
        BinOp::BitAndAssign(_) => &["|=", "^="],
        _ => &[],
    }
}

/// True if a condition binds a name (`let`), which its replacement would not bind.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(it) => has_let(&it.left) || has_let(&it.right),
        Expr::Paren(it) => has_let(&it.expr),
        _ => false,
    }
}

/// True if a pattern is `_` or a name, so that it matches every value.
fn is_open(pat: &Pat) -> bool {
    match pat {
        Pat::Wild(_) => true,
        Pat::Ident(it) => {
            it.subpat.is_none() && it.ident.to_string().starts_with(char::is_lowercase)
        }
        _ => false,
    }
}

/// True if a mutant may leave out a statement: a call, also with `.await` or `?`, or an assignment
/// to a field, to an element or through a reference.
fn is_act(expr: &Expr) -> bool {
    match expr {
        Expr::Call(_) | Expr::MethodCall(_) => true,
        Expr::Await(it) => is_act(&it.base),
        Expr::Try(it) => is_act(&it.expr),
        Expr::Assign(it) => matches!(&*it.left, Expr::Field(_) | Expr::Index(_) | Expr::Unary(_)),
        _ => false,
    }
}

/// True if an item exists only for tests, fuzzing or the feature `mutants`: by a test attribute
/// (`#[test]`, `#[tokio::test]`, …) or by `cfg`, also with `any(…)` and `all(…)` in it.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        it.path().segments.last().is_some_and(|last| last.ident == "test")
            || it.path().is_ident("cfg")
                && it.parse_args().is_ok_and(|condition| is_for_tests(&condition))
    })
}

/// True if a condition of `cfg` holds only for tests, fuzzing or the feature `mutants`.
fn is_for_tests(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test") || path.is_ident("fuzzing"),
        Meta::NameValue(MetaNameValue { path, value, .. }) => {
            path.is_ident("feature")
                && matches!(value, Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) if name.value() == "mutants")
        }
        Meta::List(list) => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            let parts = parts.unwrap_or_default();
            list.path.is_ident("all") && parts.iter().any(is_for_tests)
                || list.path.is_ident("any") && !parts.is_empty() && parts.iter().all(is_for_tests)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weave::weave;

    fn woven(source: &str) -> Vec<(String, String)> {
        let found = find("it.rs", source).expect("valid Rust");
        let each = found.mutants.iter().map(|it| {
            let text = weave(source, &[(1, &it.wrap)]);
            let text = text.replace("/*mutant 1*/", "").replace("crate::woven::active(1)", "ON");
            (it.what.clone(), text.split_whitespace().collect::<Vec<_>>().join(" "))
        });
        each.collect()
    }

    fn whats(source: &str) -> Vec<String> {
        woven(source).into_iter().map(|(what, _)| what).collect()
    }

    #[test]
    fn each_mutant_changes_the_place_that_its_name_describes() {
        let all = woven("impl Plan { fn is_due(&self) -> bool { self.at < 3 } }");
        assert_eq!(
            all,
            [
                ("return true in Plan::is_due", "impl Plan { fn is_due(&self) -> bool { if ON { return true; } self.at < 3 } }"),
                ("return false in Plan::is_due", "impl Plan { fn is_due(&self) -> bool { if ON { return false; } self.at < 3 } }"),
                ("< becomes == in Plan::is_due", "impl Plan { fn is_due(&self) -> bool { (if ON { (self.at) == (3) } else { self.at < 3 }) } }"),
                ("< becomes > in Plan::is_due", "impl Plan { fn is_due(&self) -> bool { (if ON { (self.at) > (3) } else { self.at < 3 }) } }"),
                ("< becomes <= in Plan::is_due", "impl Plan { fn is_due(&self) -> bool { (if ON { (self.at) <= (3) } else { self.at < 3 }) } }"),
            ]
            .map(|(what, text)| (what.to_owned(), text.to_owned()))
        );
    }

    #[test]
    fn arms_guards_and_statements_are_found() {
        let source = "fn f(x: X) { match x { A => g(), B if h => {} B => {} _ => {} } self.n = 1; x = 2; tick()?; }";
        assert_eq!(
            whats(source),
            [
                "return () in f",
                "no arm A in f",
                "guard of B is true in f",
                "guard of B is false in f",
                "no arm B in f",
                "left out: self.n = 1 in f",
                "left out: tick()? in f",
            ]
        );
    }

    #[test]
    fn constants_tests_and_let_bindings_get_no_mutants() {
        assert!(whats("const N: u32 = 1 + 2; const fn f() -> u32 { 1 + 2 }").is_empty());
        assert!(whats("#[cfg(test)] mod tests { fn f() -> bool { 1 < 2 } }").is_empty());
        for (condition, is_left_out) in [
            ("any(fuzzing, test)", true),
            ("all(unix, test)", true),
            ("feature = \"mutants\"", true),
            ("any(unix, test)", false),
            ("not(test)", false),
            ("feature = \"other\"", false),
        ] {
            let source = format!("#[cfg({condition})] mod it {{ fn f() -> bool {{ 1 < 2 }} }}");
            assert_eq!(whats(&source).is_empty(), is_left_out, "{condition}");
        }
        assert!(whats("#[cfg(feature = \"mutants\")] fn f() -> bool { 1 < 2 }").is_empty());
        assert_eq!(
            whats("fn f() { if let Some(x) = y && x > 3 { } }")[1..],
            ["> becomes == in f", "> becomes < in f", "> becomes >= in f"]
        );
    }

    #[test]
    fn names_are_unique() {
        let all = whats("fn f() -> u8 { a(1 + 1); a(1 + 1); 0 }");
        let mut unique = all.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(all.len(), unique.len(), "{all:?}");
        assert!(all.contains(&"left out: a(1 + 1) in f (#2)".to_owned()));
    }
}
