//! Tests of continue tokens. The expected texts are answers of the real server (1.36.3).

use super::*;

#[test]
fn continue_tokens_decode_as_in_go() {
    let mismatch = |found: &str, field: &str, go: &str| {
        format!(
            "json: cannot unmarshal {found} into Go struct field continueToken.{field} of type {go}"
        )
    };
    let whole = |found: &str| {
        format!("json: cannot unmarshal {found} into Go value of type storage.continueToken")
    };
    let unknown = "server does not recognize this encoded version ";
    for (text, want) in [
        ("{}", unknown.into()),
        ("null", unknown.into()),
        (r#"{"v":null}"#, unknown.into()),
        (r#"{"v":"<é>"}"#, format!("{unknown}<é>")),
        (r#"{"v":"meta.k8s.io/v2","rv":1}"#, format!("{unknown}meta.k8s.io/v2")),
        ("[]", whole("array")),
        (r#""x""#, whole("string")),
        ("5", whole("number")),
        ("true", whole("bool")),
        (r#"{"v":5}"#, mismatch("number", "v", "string")),
        (r#"{"v":true}"#, mismatch("bool", "v", "string")),
        (r#"{"v":{},"rv":[]}"#, mismatch("object", "v", "string")),
        (r#"{"rv":[],"v":{}}"#, mismatch("array", "rv", "int64")),
        (r#"{"rv":"1"}"#, mismatch("string", "rv", "int64")),
        (r#"{"rv":1.5}"#, mismatch("number 1.5", "rv", "int64")),
        (r#"{"rv":1.0}"#, mismatch("number 1.0", "rv", "int64")),
        (r#"{"start":5}"#, mismatch("number", "start", "string")),
        ("{", "unexpected end of JSON input".into()),
        (
            r#"{"v":"meta.k8s.io/v1"}"#,
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)".into(),
        ),
        (
            r#"{"v":"meta.k8s.io/v1","rv":-1,"start":null}"#,
            "encoded start key empty (version meta.k8s.io/v1)".into(),
        ),
        (r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"x/"}"#, "x/".into()),
        (r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"//x"}"#, "//x".into()),
        (r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"a/./b"}"#, "a/./b".into()),
    ] {
        let told = decode(&URL_SAFE_NO_PAD.encode(text)).unwrap_err();
        assert_eq!(told, format!("continue key is not valid: {want}"), "{text}");
    }
    for (text, start) in [
        (r#"{"V":"meta.k8s.io/v1","RV":-1,"START":"x\u0000","z":1}"#, "x\0"),
        (r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"/x"} "#, "x"),
        (r#"{"v":"meta.k8s.io/v1","rv":-2,"start":"/"}"#, ""),
    ] {
        assert_eq!(decode(&URL_SAFE_NO_PAD.encode(text)).unwrap().start, start, "{text}");
    }
}

#[test]
fn a_continue_token_may_contain_line_ends_and_trailing_bits() {
    const TOKEN: &str = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9";
    for end in ["", "Cg", "Ch", "\n", "\r\n"] {
        assert_eq!(decode(&format!("{TOKEN}{end}")).unwrap().start, "a", "{end:?}");
    }
    for (token, want) in [
        (format!("{TOKEN}Q="), "illegal base64 data at input byte 57"),
        (format!("{TOKEN}Cg=="), "illegal base64 data at input byte 58"),
        (format!("{TOKEN}C"), "illegal base64 data at input byte 56"),
        ("eyJ".into(), "unexpected end of JSON input"),
        ("e31".into(), "server does not recognize this encoded version "),
        ("\n".into(), "unexpected end of JSON input"),
        ("_w".into(), "invalid character 'ÿ' looking for beginning of value"),
    ] {
        let told = decode(&token).unwrap_err();
        assert_eq!(told, format!("continue key is not valid: {want}"), "{token:?}");
    }
}
