//! Rules for names, label values, and keys of labels and data, with the error texts of the real
//! server. The functions return all problems of a text; none for a valid text.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn is_lower(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_dns_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            is_lower(*first) && is_lower(*last) && bytes.iter().all(|c| is_lower(*c) || *c == b'-')
        }
        _ => false,
    }
}

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes.iter().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(c))
        }
        _ => false,
    }
}

fn too_long(text: &str, n_max: usize) -> Option<String> {
    (text.len() > n_max).then(|| format!("must be no more than {n_max} characters"))
}

/// Rule for the names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain: labels separated by dots, at most 253 characters in all.
    Subdomain,
    /// RFC 1123 label: lower-case letters, digits and dashes, at most 63 characters.
    Label,
    /// RFC 1035 label: as an RFC 1123 label, but with a letter at the beginning.
    Label1035,
    /// Any text without `/` and `%`, except `.` and `..`.
    PathSegment,
}

impl NameRule {
    /// True if the rule allows `name`.
    pub fn allows(self, name: &str) -> bool {
        name_problems(self, name).is_empty()
    }
}

/// Problems of a name under `rule`.
pub(crate) fn name_problems(rule: NameRule, name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    match rule {
        NameRule::Subdomain => {
            problems.extend(too_long(name, 253));
            if !name.split('.').all(is_dns_label) {
                problems.push(SUBDOMAIN.into());
            }
        }
        NameRule::Label => {
            problems.extend(too_long(name, 63));
            if !is_dns_label(name) {
                let is_subdomain = name.split('.').all(is_dns_label);
                problems.push(if is_subdomain {
                    "must not contain dots".into()
                } else {
                    LABEL.into()
                });
            }
        }
        NameRule::Label1035 => {
            problems.extend(too_long(name, 63));
            if !is_dns_label(name) || name.as_bytes().first().is_some_and(u8::is_ascii_digit) {
                problems.push(LABEL_1035.into());
            }
        }
        NameRule::PathSegment => {
            if matches!(name, "." | "..") {
                problems.push(format!("may not be '{name}'"));
            }
            for banned in ["/", "%"] {
                if name.contains(banned) {
                    problems.push(format!("may not contain '{banned}'"));
                }
            }
        }
    }
    problems
}

/// Problems of a qualified name, such as `example.com/role`: the key of a label, an annotation or a
/// taint, or a finalizer.
pub(crate) fn qualified_name_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".into());
            } else {
                let prefixed = |why: String| format!("prefix part {why}");
                problems
                    .extend(name_problems(NameRule::Subdomain, prefix).into_iter().map(prefixed));
            }
            name
        }
        _ => {
            let why = QUALIFIED.replacen("name part must", "a valid label key must", 1);
            problems.push(format!(
                "{why} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return problems;
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else {
        problems.extend(too_long(name, 63).map(|why| format!("name part {why}")));
    }
    if !is_name_part(name) {
        problems.push(QUALIFIED.into());
    }
    problems
}

/// Problems of the value of a label or a taint.
pub(crate) fn label_value_problems(value: &str) -> Vec<String> {
    let mut problems: Vec<String> = too_long(value, 63).into_iter().collect();
    if !value.is_empty() && !is_name_part(value) {
        problems.push(LABEL_VALUE.into());
    }
    problems
}

/// Problems of a key of a ConfigMap or a Secret.
pub(crate) fn config_key_problems(key: &str) -> Vec<String> {
    const WRONG: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let mut problems: Vec<String> = too_long(key, 253).into_iter().collect();
    let is_good = |c: u8| c.is_ascii_alphanumeric() || b"-._".contains(&c);
    if key.is_empty() || !key.bytes().all(is_good) {
        problems.push(WRONG.into());
    }
    if matches!(key, "." | "..") {
        problems.push(format!("must not be '{key}'"));
    } else if key.starts_with("..") {
        problems.push("must not start with '..'".into());
    }
    problems
}

/// Problems of the name of a port.
pub(crate) fn port_name_problems(name: &str) -> Vec<&'static str> {
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let problems = [
        (name.len() > 15, "must be no more than 15 characters"),
        (
            name.is_empty() || !name.bytes().all(is_plain),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(|c| c.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    problems.into_iter().filter_map(|(is_so, why)| is_so.then_some(why)).collect()
}
