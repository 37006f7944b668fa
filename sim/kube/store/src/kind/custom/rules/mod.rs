//! Rules in CEL (`x-kubernetes-validations`), compiled once for each definition.
//!
//! Follows `apiextensions-apiserver: pkg/apiserver/schema/cel/{compilation,validation}.go`, without
//! limits of cost. The crate `cel` parses and evaluates expressions. It knows no types, so
//! [`check`] finds mistakes, and features that the crate lacks, before an object is written.

mod calls;
mod check;
mod conversions;
mod field_path;
mod functions;
mod loops;
mod parse;
mod program;
mod signatures;
mod types;
mod values;
mod walk;

use kube_cel::cel::{Context, Value as CelValue};
use serde_json::Value;

use crate::FieldErrors;
use program::{FUNCTIONS, Program};
use types::Type;

pub(crate) use field_path::field_path;
pub(crate) use program::Refusal;
pub(crate) use walk::{Found, validate};
pub(super) use walk::{before, is_equal};

/// The longest result of a `messageExpression`, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// The rules of one schema.
#[derive(Debug)]
pub(crate) struct Rules {
    of: Type,
    /// The type in the schema, which errors show instead of the value.
    schema_type: String,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    /// `None` for an empty rule.
    program: Option<Result<Program, Refusal>>,
    message_program: Option<Result<Program, Refusal>>,
    text: String,
    message: String,
    reason: String,
    /// `fieldPath` in the form for errors.
    field: Option<String>,
    is_optional: bool,
}

/// The problems of one rule, for the definition that contains it.
pub(crate) struct Problems<'a> {
    pub(crate) rule: Option<&'a Refusal>,
    pub(crate) message: Option<&'a Refusal>,
    pub(crate) uses_old: bool,
}

impl Rules {
    /// Compiles the rules of `schema`, but not of the schemas inside it. Returns `None` if it has
    /// no rules or describes values that expressions cannot read. `is_root` is true for the schema
    /// of a whole or embedded object.
    pub(crate) fn compile(schema: &Value, is_root: bool) -> Option<Self> {
        let rules = schema["x-kubernetes-validations"].as_array().filter(|it| !it.is_empty())?;
        let of = Type::of_schema(schema, "selfType", is_root)?;
        let rules = rules.iter().map(|rule| Rule::compile(rule, &of, schema)).collect();
        let schema_type = schema["type"].as_str().unwrap_or_default().to_owned();
        Some(Self { of, schema_type, rules })
    }

    /// The problems of each rule.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problems<'_>> {
        self.rules.iter().map(|rule| Problems {
            rule: rule.program.as_ref().and_then(|it| it.as_ref().err()),
            message: rule.message_program.as_ref().and_then(|it| it.as_ref().err()),
            uses_old: matches!(&rule.program, Some(Ok(program)) if program.uses_old),
        })
    }

    /// Checks a value. `old` is the value before an update, if the two can be compared. If
    /// `is_unchanged` returns true, the failure of a rule without `oldSelf` is only a warning.
    fn check(
        &self,
        path: &str,
        value: &Value,
        old: Option<&Value>,
        is_unchanged: &dyn Fn() -> bool,
        found: &mut Found,
    ) {
        let functions = &*FUNCTIONS;
        let mut plain = functions.new_inner_scope();
        plain.add_variable_from_value("self", values::convert(value, &self.of, functions));
        let mut optional = plain.new_inner_scope();
        let mut required = plain.new_inner_scope();
        let before = old.map(|old| values::convert(old, &self.of, functions));
        if let Some(before) = &before {
            required.add_variable_from_value("oldSelf", before.clone());
        }
        optional.add_variable_from_value("oldSelf", walk::optional(before));
        for rule in &self.rules {
            let program = match &rule.program {
                None => continue,
                Some(Ok(program)) => program,
                Some(Err(Refusal::Wrong(why) | Refusal::Unsupported(why))) => {
                    let why = format!("rule compile error: {why}");
                    found.errors.invalid(
                        walk::field(path),
                        &self.schema_type.as_str().into(),
                        &why,
                    );
                    continue;
                }
            };
            if program.uses_old && old.is_none() && !rule.is_optional {
                continue;
            }
            let context = if rule.is_optional { &optional } else { &required };
            match program.run(context) {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => {
                    let error = rule.error(path, value, &self.schema_type, &required);
                    if !program.uses_old && is_unchanged() {
                        found.warnings.append(error);
                    } else {
                        found.errors.append(error);
                    }
                }
                Err(why) => {
                    let why = rule.failure(&why);
                    found.errors.invalid(
                        walk::field(path),
                        &self.schema_type.as_str().into(),
                        &why,
                    );
                }
            }
        }
    }
}

impl Rule {
    fn compile(rule: &Value, of: &Type, schema: &Value) -> Self {
        let text = |field: &str| rule[field].as_str().unwrap_or_default().to_owned();
        let is_optional = rule["optionalOldSelf"] == true;
        let compiled = |field: &str, wanted: &Type, why: &str| {
            let (program, kind) = Program::compile(&text(field), of, is_optional)?;
            let is_right = std::mem::discriminant(&kind) == std::mem::discriminant(wanted);
            is_right.then_some(program).ok_or_else(|| Refusal::Wrong(why.to_owned()))
        };
        let program = (!text("rule").trim().is_empty()).then(|| {
            let words = "cel expression must evaluate to a bool";
            failed_as("compilation failed: ", words, compiled("rule", &Type::Bool, words))
        });
        let is_right = matches!(program, Some(Ok(_)));
        let message_program = (is_right && !text("messageExpression").is_empty()).then(|| {
            let words = "messageExpression must evaluate to a string";
            let made = compiled("messageExpression", &Type::Text, words);
            failed_as("messageExpression compilation failed: ", words, made)
        });
        let field = text("fieldPath");
        Self {
            program,
            message_program,
            text: text("rule"),
            message: text("message"),
            reason: text("reason"),
            field: (!field.is_empty()).then(|| field_path(&field, schema)).flatten(),
            is_optional,
        }
    }

    /// Returns the error for a rule that is false.
    fn error(
        &self,
        path: &str,
        value: &Value,
        schema_type: &str,
        context: &Context<'_>,
    ) -> FieldErrors {
        let why = self.evaluated_message(context).unwrap_or_else(|| {
            if self.message.is_empty() {
                format!("failed rule: {}", self.text.trim())
            } else {
                self.message.trim().to_owned()
            }
        });
        let field = match &self.field {
            Some(field) if path.is_empty() => field.clone(),
            Some(field) => format!("{path}.{field}"),
            None => walk::field(path).to_owned(),
        };
        let value = (!matches!(schema_type, "object" | "array")).then_some(value);
        let mut error = FieldErrors::default();
        match self.reason.as_str() {
            "FieldValueForbidden" => error.forbidden(field, &why),
            "FieldValueRequired" => error.required(field, &why),
            "FieldValueDuplicate" => error.duplicate_in_rule(field, value),
            _ => error.invalid_in_rule(field, value, &why),
        }
        error
    }

    /// Returns the result of `messageExpression`; `None` if the rule has none or the result cannot
    /// be a message.
    fn evaluated_message(&self, context: &Context<'_>) -> Option<String> {
        let Some(Ok(program)) = &self.message_program else { return None };
        let Ok(CelValue::String(text)) = program.run(context) else { return None };
        let text = text.trim();
        let is_message = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
        is_message.then(|| text.to_owned())
    }

    /// Returns the error text for a rule whose evaluation failed with `why`.
    fn failure(&self, why: &str) -> String {
        let message = self.message.trim();
        let rule = if self.message.is_empty() { self.text.trim() } else { message };
        if why.starts_with("no such overload") {
            return format!(
                "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
            );
        }
        format!("{why} evaluating rule: {rule}")
    }
}

/// Puts `prefix` before the compiler's errors, but not before `words`.
fn failed_as(
    prefix: &str,
    words: &str,
    made: Result<Program, Refusal>,
) -> Result<Program, Refusal> {
    made.map_err(|refusal| match refusal {
        Refusal::Wrong(why) if why != words && !why.starts_with("program instantiation") => {
            Refusal::Wrong(format!("{prefix}{why}"))
        }
        other => other,
    })
}
