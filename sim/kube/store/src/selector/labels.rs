//! Label selectors in their string form, as `labels.Parse` reads them.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::Status;
use crate::object::{fields, names};
use crate::values::text::quote;

/// A label selector: requirements, all of which the labels of an object must meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelSelector(pub(super) Vec<Requirement>);

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) operator: Operator,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operator {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    /// Parses a selector such as `a=b, c in (d,e), !f`.
    ///
    /// # Errors
    /// 400 with the real parser's error text.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let parser = Parser { tokens: lex(text), at: 0 };
        parser.requirements().map(Self).map_err(Status::bad_request)
    }

    /// True if the selector has no requirement.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the labels of `object` meet all requirements.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = fields::map(object, "/metadata/labels");
        self.0.iter().all(|requirement| {
            let value =
                labels.and_then(|labels| labels.get(&requirement.key)).and_then(Value::as_str);
            match (&requirement.operator, value) {
                (Operator::In(values), Some(value)) => values.contains(value),
                (Operator::NotIn(values), Some(value)) => !values.contains(value),
                (Operator::Exists, value) => value.is_some(),
                (Operator::DoesNotExist | Operator::NotIn(_), None) => true,
                (Operator::DoesNotExist, Some(_)) | (_, None) => false,
                (Operator::GreaterThan(bound), Some(value)) => {
                    value.parse::<i64>().is_ok_and(|value| value > *bound)
                }
                (Operator::LessThan(bound), Some(value)) => {
                    value.parse::<i64>().is_ok_and(|value| value < *bound)
                }
            }
        })
    }
}

/// Writes the selector in the syntax of `labels.Parse`, with `in` and `notin` for equality and
/// inequality. Parsing the text gives an equal selector.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, Requirement { key, operator }) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str(",")?;
            }
            let list = |values: &BTreeSet<String>| Vec::from_iter(values.clone()).join(",");
            match operator {
                Operator::Exists => write!(f, "{key}")?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
                Operator::In(values) => write!(f, "{key} in ({})", list(values))?,
                Operator::NotIn(values) => write!(f, "{key} notin ({})", list(values))?,
                Operator::GreaterThan(bound) => write!(f, "{key}>{bound}")?,
                Operator::LessThan(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Sign(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Sign(sign) => sign,
            Self::End => "",
        }
    }
}

const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", "<", ">"];
/// Space characters that separate words; any other space character is part of a word.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

fn lex(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(BLANKS);
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let is_end = |c: char| BLANKS.contains(&c) || "=!(),<>".contains(c);
            let end = rest.find(is_end).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start_matches(BLANKS);
    }
    tokens.push(Token::End);
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn requirements(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => break,
                Token::Word(_) | Token::Sign("!") => {
                    let requirement = self
                        .requirement()
                        .map_err(|why| format!("unable to parse requirement: {why}"))?;
                    requirements.push(requirement);
                    match self.next() {
                        Token::End => break,
                        Token::Sign(",") => match self.peek() {
                            Token::Word(_) | Token::Sign("!") => {}
                            other => {
                                let found = quoted(other);
                                return Err(format!(
                                    "found {found}, expected: identifier after ','"
                                ));
                            }
                        },
                        other => {
                            let found = quoted(&other);
                            return Err(format!("found {found}, expected: ',' or 'end of string'"));
                        }
                    }
                }
                other => {
                    let found = quoted(other);
                    return Err(format!(
                        "found {found}, expected: !, identifier, or 'end of string'"
                    ));
                }
            }
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(requirements)
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = *self.peek() == Token::Sign("!");
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(format!("found {}, expected: identifier", quoted(&other))),
        };
        if let Some(why) = names::qualified_name_problems(&key).into_iter().next() {
            return Err(format!("<nil>: Invalid value: {}: {why}", quote(&key)));
        }
        if absent {
            return Ok(Requirement { key, operator: Operator::DoesNotExist });
        }
        let operator = self.operator(&key)?;
        Ok(Requirement { key, operator })
    }

    fn operator(&mut self, key: &str) -> Result<Operator, String> {
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return Ok(Operator::Exists);
        }
        let operator = self.next();
        match operator.text() {
            "in" | "notin" => {
                let values = self.values()?;
                check_values(key, &values)?;
                let is_in = operator.text() == "in";
                Ok(if is_in { Operator::In(values) } else { Operator::NotIn(values) })
            }
            "=" | "==" | "!=" => {
                let value = self.exact_value()?;
                let values = BTreeSet::from([value]);
                check_values(key, &values)?;
                let is_not = operator.text() == "!=";
                Ok(if is_not { Operator::NotIn(values) } else { Operator::In(values) })
            }
            "<" | ">" => {
                let value = self.exact_value()?;
                let bound = value.parse().map_err(|_| {
                    format!(
                        "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                        quote(&value)
                    )
                })?;
                let is_less = operator.text() == "<";
                Ok(if is_less { Operator::LessThan(bound) } else { Operator::GreaterThan(bound) })
            }
            _ => {
                Err(format!("found {}, expected: in, notin, =, ==, !=, gt, lt", quoted(&operator)))
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Sign(",") => Ok(String::new()),
            _ => match self.next() {
                Token::Word(word) => Ok(word),
                other => Err(format!("found {}, expected: identifier", quoted(&other))),
            },
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let open = self.next();
        if open != Token::Sign("(") {
            return Err(format!("found {} expected: '('", quoted(&open)));
        }
        let mut values = BTreeSet::new();
        loop {
            let value = match self.peek() {
                Token::Sign("," | ")") => String::new(),
                _ => match self.next() {
                    Token::Word(word) => word,
                    other => {
                        let wanted = if values.is_empty() { "',', ')' or" } else { "',', or" };
                        let found = quoted(&other);
                        return Err(format!("found {found}, expected: {wanted} identifier"));
                    }
                },
            };
            values.insert(value);
            match self.next() {
                Token::Sign(")") => return Ok(values),
                Token::Sign(",") => {}
                other => return Err(format!("found {}, expected: ',' or ')'", quoted(&other))),
            }
        }
    }

    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }
}

fn quoted(token: &Token) -> String {
    format!("'{}'", token.text())
}

fn check_values(key: &str, values: &BTreeSet<String>) -> Result<(), String> {
    for (at, value) in values.iter().enumerate() {
        if let Some(why) = names::label_value_problems(value).into_iter().next() {
            return Err(format!("values[{at}][{key}]: Invalid value: {}: {why}", quote(value)));
        }
    }
    Ok(())
}
