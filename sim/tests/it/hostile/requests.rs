//! Hostile requests to a cluster, each with its expected answer.

pub(super) const AUTH: &str = "Host: x\r\nAuthorization: Bearer $TOKEN\r\n";

pub(super) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\n{AUTH}\r\n").into_bytes()
}

fn with(method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = format!("Content-Length: {}\r\n", body.len());
    let head = format!("{method} {path} HTTP/1.1\r\n{AUTH}{length}{headers}\r\n");
    [head.as_bytes(), body].concat()
}

fn post(path: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    with("POST", path, &format!("Content-Type: {content_type}\r\n"), body)
}

pub(super) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TOO_LARGE: &str =
    r#""message":"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge""#;
const NOT_ALLOWED: &str = r#""reason":"MethodNotAllowed""#;
const NOT_FOUND: &str = "404 page not found";

/// A hostile request: its name, its bytes, the start of the expected status, and a part of the
/// expected answer (empty if any answer with this status is right).
type Hostile = (&'static str, Vec<u8>, &'static str, &'static str);

const JSON: &str = "application/json";

/// All hostile requests. The expected answers are those of kube-apiserver 1.36.3, except where a
/// comment says otherwise.
pub(super) fn requests() -> Vec<Hostile> {
    [bodies(), framing(), methods_and_paths(), selectors_and_bombs()].concat()
}

fn bodies() -> Vec<Hostile> {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    let map = |data: &[u8]| [br#"{"metadata":{"name":"hostile"},"data":"#, data, b"}"].concat();
    vec![
        (
            "a body of 3 MiB and one byte",
            post(MAPS, JSON, &vec![b' '; (3 << 20) + 1]),
            "413",
            TOO_LARGE,
        ),
        ("a body of 40 MiB", post(MAPS, JSON, &vec![b' '; 40 << 20]), "413", TOO_LARGE),
        (
            "a huge patch",
            with(
                "PATCH",
                "/api/v1/namespaces/default",
                "Content-Type: application/merge-patch+json\r\n",
                &vec![b' '; 4 << 20],
            ),
            "413",
            TOO_LARGE,
        ),
        ("a huge body to nowhere", post("/nowhere", JSON, &vec![b' '; 4 << 20]), "404", NOT_FOUND),
        (
            "deep JSON",
            post(MAPS, JSON, &deep),
            "400",
            "json parse error: invalid character '[' exceeded max depth",
        ),
        (
            "a deep patch",
            with(
                "PATCH",
                "/api/v1/namespaces/default",
                "Content-Type: application/merge-patch+json\r\n",
                &br#"{"a":"#.repeat(100_000),
            ),
            "400",
            "error decoding patch: invalid character '{' exceeded max depth",
        ),
        (
            "numbers for texts",
            post(MAPS, JSON, &map(br#"{"a":1}"#)),
            "400",
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "a list for an object",
            post(MAPS, JSON, b"[]"),
            "400",
            "json: cannot unmarshal array into Go value",
        ),
        (
            "text that is not UTF-8",
            post(&format!("{MAPS}?dryRun=All"), JSON, &map(b"{\"a\":\"x\xff\"}")),
            "201",
            "\"a\":\"x\u{fffd}\"",
        ),
        (
            "a key that is not UTF-8",
            post(MAPS, JSON, &map(b"{\"a\xff\":\"x\"}")),
            "422",
            "a valid config key must consist of",
        ),
        ("half a document", post(MAPS, JSON, b"{"), "400", "unexpected end of JSON input"),
        (
            "protobuf of no kind",
            post(MAPS, PROTOBUF, b"hello"),
            "400",
            "does not appear to be a protobuf message",
        ),
        (
            "protobuf of junk",
            post(MAPS, PROTOBUF, b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            "400",
            "proto: integer overflow",
        ),
        (
            "protobuf that ends early",
            post(MAPS, PROTOBUF, b"k8s\0\x0a\x10abc"),
            "400",
            "unexpected EOF",
        ),
    ]
}

/// Requests with wrong lengths, chunks or headers, a path that is too long, and bytes that are not
/// HTTP.
fn framing() -> Vec<Hostile> {
    let flood = |n: usize| (0..n).map(|n| format!("X-{n}: 1\r\n")).collect::<String>();
    let lengths = |length: &str, body: &str| {
        format!("POST {MAPS} HTTP/1.1\r\n{AUTH}Content-Length: {length}\r\n\r\n{body}").into_bytes()
    };
    let chunked = |body: &str| {
        format!("POST {MAPS} HTTP/1.1\r\n{AUTH}Content-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
            .into_bytes()
    };
    vec![
        (
            "a length too short",
            lengths("5", r#"{"metadata":{"name":"hostile"}}"#),
            "400",
            "unexpected end of JSON input",
        ),
        ("a length that is a word", lengths("two", "{}"), "400", ""),
        ("two lengths", with("POST", MAPS, "Content-Length: 3\r\n", b"{}"), "400", ""),
        // The real server answers 500 "invalid byte in chunk length".
        ("a chunk of no length", chunked("zz\r\n{}\r\n0\r\n\r\n"), "500", r#""status":"Failure""#),
        // The real server accepts headers of up to 1 MiB in all, and its refusal has a body.
        ("ten thousand headers", with("GET", MAPS, &flood(10_000), b""), "431", ""),
        (
            "a header of 2 MiB",
            with("GET", MAPS, &format!("X: {}\r\n", "a".repeat(2 << 20)), b""),
            "431",
            "",
        ),
        ("a path of 2 MiB", get(&format!("/{}", "a".repeat(2 << 20))), "4", ""),
        ("a header without a colon", with("GET", MAPS, "nothing\r\n", b""), "400", ""),
        // The real server refuses these two with 400 and 417.
        (
            "no Host",
            b"GET /api/v1/nodes HTTP/1.1\r\nAuthorization: Bearer $TOKEN\r\n\r\n".to_vec(),
            "200",
            "NodeList",
        ),
        (
            "an unknown Expect header",
            with("GET", "/api/v1/nodes", "Expect: miracles\r\n", b""),
            "200",
            "NodeList",
        ),
        ("no HTTP", b"\x16\x03\x01\x00\x00garbage\r\n\r\n".to_vec(), "400", ""),
    ]
}

fn methods_and_paths() -> Vec<Hostile> {
    vec![
        ("an unknown method", with("BREW", MAPS, "", b""), "405", NOT_ALLOWED),
        ("TRACE", with("TRACE", "/api/v1/namespaces/default", "", b""), "405", NOT_ALLOWED),
        ("a method in lower case", with("get", MAPS, "", b""), "405", NOT_ALLOWED),
        ("two slashes at the beginning", get("//api/v1/nodes"), "404", NOT_FOUND),
        (
            "two slashes inside",
            get("/api/v1//nodes"),
            "404",
            "the server could not find the requested resource",
        ),
        (
            "a path with .. inside",
            get("/api/v1/../v1/nodes"),
            "404",
            "the server could not find the requested resource",
        ),
        ("a path with .. at the start", get("/../../etc/passwd"), "404", NOT_FOUND),
        (
            "an escaped .. as a name",
            get("/api/v1/nodes/%2e%2e"),
            "400",
            r#"Name parameter invalid: \"..\": may not be '..'"#,
        ),
        ("a name with a percent sign", get("/api/v1/nodes/a%25b"), "400", "may not contain '%'"),
        ("an escaped slash", get("/api/v1/nodes/a%2Fstatus"), "404", r#"nodes \"a\" not found"#),
        ("an invalid escape", get("/api/v1/nodes/%zz"), "400", "400 Bad Request"),
        ("no path", get("nodes"), "400", "400 Bad Request"),
    ]
}

/// Requests with long selectors, and short bodies that expand to large documents.
fn selectors_and_bombs() -> Vec<Hostile> {
    vec![
        (
            "a selector of 20,000 conditions",
            get(&format!("/api/v1/nodes?labelSelector={}a", "a,".repeat(20_000))),
            "200",
            "NodeList",
        ),
        (
            "a selector that is too long",
            get(&format!("/api/v1/nodes?labelSelector={}", "a".repeat(300))),
            "400",
            "<nil>: Invalid value",
        ),
        (
            "a JSON patch that doubles the document fifty times",
            with(
                "PATCH",
                "/api/v1/namespaces/default",
                "Content-Type: application/json-patch+json\r\n",
                bomb().as_bytes(),
            ),
            "422",
            "the server rejected our request due to an error in our request",
        ),
        (
            "YAML of aliases of aliases",
            post(MAPS, "application/yaml", aliases().as_bytes()),
            "400",
            "the object provided is unrecognized",
        ),
    ]
}

/// A JSON patch with fifty copy operations, each of which doubles the labels.
fn bomb() -> String {
    let copy =
        |n| format!(r#",{{"op":"copy","from":"/metadata/labels","path":"/metadata/labels/{n}"}}"#);
    let add = r#"{"op":"add","path":"/metadata/labels","value":{"a":"b"}}"#;
    format!("[{add}{}]", (0..50).map(copy).collect::<String>())
}

fn aliases() -> String {
    let line = |n: u32| format!("a{}: &a{} [{}]\n", n + 1, n + 1, format!("*a{n},").repeat(9));
    format!("a0: &a0 [x]\n{}", (0..9).map(line).collect::<String>())
}
