//! Wrong results for functions: values chosen by the syntax of the return type, as by
//! cargo-mutants.
//!
//! The compiler may refuse a value; the build then drops the mutant.

use syn::{GenericArgument, Path, PathArguments, ReturnType, Type};

/// Returns expressions for a wrong result; empty if this module has none for the type.
pub(crate) fn wrong_results(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".to_owned()],
        ReturnType::Type(_, it) => values(it),
    }
}

fn values(it: &Type) -> Vec<String> {
    match it {
        Type::Path(path) => of_path(&path.path),
        Type::Tuple(tuple) if tuple.elems.is_empty() => vec!["()".to_owned()],
        Type::Tuple(tuple) => {
            let parts: Option<Vec<String>> =
                tuple.elems.iter().map(|it| values(it).into_iter().next()).collect();
            parts.map(|parts| format!("({})", parts.join(", "))).into_iter().collect()
        }
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => {
                vec!["\"\"".to_owned(), "\"xyzzy\"".to_owned()]
            }
            Type::Slice(_) => vec!["&[]".to_owned()],
            inner if reference.mutability.is_none() => wrapped("Box::leak(Box::new(", inner, "))"),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn of_path(path: &Path) -> Vec<String> {
    let Some(last) = path.segments.last() else { return Vec::new() };
    let inner = first_argument(&last.arguments);
    let fixed = |values: &[&str]| values.iter().map(|it| (*it).to_owned()).collect();
    match (last.ident.to_string().as_str(), inner) {
        ("bool", _) => fixed(&["true", "false"]),
        ("u8" | "u16" | "u32" | "u64" | "u128" | "usize", _) => fixed(&["0", "1"]),
        ("i8" | "i16" | "i32" | "i64" | "i128" | "isize", _) => fixed(&["0", "1", "-1"]),
        ("f32" | "f64", _) => fixed(&["0.0", "1.0"]),
        ("String", _) => fixed(&["String::new()", "\"xyzzy\".to_owned()"]),
        ("Option", Some(inner)) => {
            let mut all = vec!["None".to_owned()];
            all.extend(wrapped("Some(", inner, ")"));
            all
        }
        ("Result", Some(inner)) => wrapped("Ok(", inner, ")"),
        ("Vec", Some(inner)) => {
            let mut all = vec!["Vec::new()".to_owned()];
            all.extend(wrapped("vec![", inner, "]"));
            all
        }
        ("Box", Some(inner)) => wrapped("Box::new(", inner, ")"),
        ("Arc", Some(inner)) => wrapped("std::sync::Arc::new(", inner, ")"),
        ("Self", _) => Vec::new(),
        _ => fixed(&["Default::default()"]),
    }
}

fn first_argument(arguments: &PathArguments) -> Option<&Type> {
    let PathArguments::AngleBracketed(angled) = arguments else { return None };
    angled.args.iter().find_map(|it| match it {
        GenericArgument::Type(it) => Some(it),
        _ => None,
    })
}

fn wrapped(before: &str, inner: &Type, after: &str) -> Vec<String> {
    values(inner).into_iter().map(|it| format!("{before}{it}{after}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fit_the_type() {
        let table = [
            ("fn f()", vec!["()"]),
            ("fn f() -> bool", vec!["true", "false"]),
            ("fn f() -> Option<u32>", vec!["None", "Some(0)", "Some(1)"]),
            ("fn f() -> anyhow::Result<()>", vec!["Ok(())"]),
            (
                "fn f() -> Result<Vec<String>, Error>",
                vec!["Ok(Vec::new())", "Ok(vec![String::new()])", "Ok(vec![\"xyzzy\".to_owned()])"],
            ),
            ("fn f() -> (bool, Lookup)", vec!["(true, Default::default())"]),
            ("fn f() -> &'static str", vec!["\"\"", "\"xyzzy\""]),
            ("fn f() -> &mut Node", vec![]),
            ("fn f() -> impl Iterator<Item = u8>", vec![]),
        ];
        for (signature, expected) in table {
            let parsed: syn::Signature = syn::parse_str(signature).expect(signature);
            assert_eq!(wrong_results(&parsed.output), expected, "{signature}");
        }
    }
}
