"""Small trees with known problems, for the self-test."""

# Files of every tree, and then the cases: a name, files, rooms.txt, and a part of each expected problem.
CARGO = {"Cargo.toml": '[workspace]\nmembers = ["a"]', "a/Cargo.toml": '[package]\nname = "a"'}
LIB = {"a/src/lib.rs": "mod low;\nmod high;\npub use low::{Low, deep::Deep as Renamed};\npub use high::High;", "a/src/low.rs": "", "a/src/high.rs": ""}
ORDER = "[a]\norder: low high"
CASES = [
    ("uses that go down", {"a/src/high.rs": "use crate::low::Low; fn f() { crate::Low::new(); super::low::g::<u8>() }"}, ORDER, []),
    ("use of a module above", {"a/src/low.rs": "\nuse crate::high::High;"}, ORDER, ["a/src/low.rs:2: low uses high"]),
    ("path in a body", {"a/src/low.rs": "fn f() {\n  g(crate::high::h(1)) }"}, ORDER, ["a/src/low.rs:2: low uses high"]),
    ("name that the root re-exports", {"a/src/low.rs": "use crate::High;"}, ORDER, ["low.rs:1: low uses high"]),
    ("renamed name of the root", {"a/src/high.rs": "use crate::Renamed;"}, "[a]\norder: high low", ["high.rs:1: high uses low"]),
    ("group over lines", {"a/src/low.rs": "use crate::{\n  low::{self as this, x},\n  high::{y},\n};"}, ORDER, ["low.rs:3: low uses high"]),
    ("super", {"a/src/low.rs": "use super::high::H;"}, ORDER, ["low.rs:1: low uses high"]),
    ("super of an inline module", {"a/src/low.rs": "mod inner { use super::super::High; use super::x; }"}, ORDER, ["low.rs:1: low uses high"]),
    ("type between angles", {"a/src/low.rs": "fn f() -> <crate::high::H as T>::X {}"}, ORDER, ["low uses high"]),
    ("path in an attribute", {"a/src/low.rs": "#[serde(\nwith = \"crate::high::x\")] struct S;"}, ORDER, ["low.rs:2: low uses high"]),
    ("folder", {"a/src/low.rs": None, "a/src/low/mod.rs": "mod x;", "a/src/low/x.rs": "use super::super::high;"}, ORDER, ["low/x.rs:1: low uses high"]),
    ("macro", {"a/src/high.rs": "macro_rules! m { () => {} }", "a/src/low.rs": "fn f() { m!() }"}, ORDER, ["low.rs:1: low uses high"]),
    ("tests, comments and strings do not count", {"a/src/low.rs": """
        // crate::high::x
        /* crate::high /* crate::high::x */ crate::high::x */
        pub(in crate::high) fn f<'a>(x: &'a str) { "crate::high::x"; r#"" crate::high::x "#; '"'; b'\\''; }
        #[cfg(test)] use crate::high::a;
        #[cfg(test)] const A: [u8; 2] = { crate::high::x() };
        #[cfg(doctest)] #[doc = include_str!("../README.md")] mod readme { use crate::high::a; }
        #[cfg(test)] #[derive(A)] fn g() -> [u8; 3] { crate::high::x() }
        #[cfg(test)] mod tests { use super::super::high::x; #[test] fn f() { crate::high::x() } }
        #[test] fn h() { crate::high::x() }"""}, ORDER, []),
    ("code behind a test", {"a/src/low.rs": "#[cfg(test)] mod tests { fn f() {} }\nuse crate::high::x;"}, ORDER, ["low.rs:2: low uses high"]),
    ("code behind a constant function", {"a/src/low.rs": "#[cfg(test)] const fn n() {}\nuse crate::high::x;"}, ORDER, ["low.rs:2: low uses high"]),
    ("code behind a constant parameter", {"a/src/low.rs": "#[cfg(test)] fn g<const N: usize>() {}\nuse crate::high::x;"}, ORDER, ["low.rs:2: low uses high"]),
    ("test or more", {"a/src/low.rs": "#[cfg(any(test, fuzzing))] use crate::high::x;"}, ORDER, ["low uses high"]),
    ("module that is not listed", {}, "[a]\norder: low", ["module high is not in `order`"]),
    ("module that does not exist", {}, "[a]\norder: low high top", ["names the module top, which does not exist"]),
    ("file without a module", {"a/src/lost.rs": ""}, ORDER, ["a/src/lost.rs:1: no module declares"]),
    ("unknown name", {"a/src/low.rs": "use crate::Nothing;"}, ORDER, ["cannot tell which module defines crate::Nothing"]),
    ("glob", {"a/src/low.rs": "use crate::*;"}, ORDER, ["cannot tell which module defines crate::*"]),
    ("knot", {"a/src/low.rs": "use crate::high::H;", "a/src/high.rs": "use crate::low::L;"}, ORDER + "\nknot: low high", []),
    ("knot that is cut", {"a/src/high.rs": "use crate::low::L;"}, ORDER + "\nknot: low high", ["low is in no circle", "high is in no circle"]),
    ("item of lib.rs", {"a/src/lib.rs": "mod low; mod high; struct S; fn f() { high::g() }", "a/src/low.rs": "use crate::S;"},
     "[a]\norder: low high crate", ["low.rs:1: low uses crate"]),
    ("two styles", {"a/src/low/x.rs": "", "a/src/low.rs": "mod x;"}, ORDER, ["expected low/mod.rs"]),
    ("siblings", {"a/src/low.rs": None, "a/src/low/mod.rs": "".join(f"mod m{i};" for i in range(13)), **{f"a/src/low/m{i}.rs": "" for i in range(13)}},
     ORDER, ["low has 13 modules in it; expected at most 12"]),
    ("exception for nothing", {"a/src/main.rs": ""}, ORDER + "\nsiblings: lo 14", ["names lo, which does not exist"]),
    ("exception that is too large", {}, ORDER + "\nsiblings: low 14", ["low has only 0 modules"]),
    ("module of the binary", {"a/src/main.rs": "mod run;", "a/src/run.rs": ""}, ORDER, ["module run is not in `main`"]),
    ("module of the binary that is listed", {"a/src/main.rs": "mod run;", "a/src/run.rs": ""}, ORDER + "\nmain: run", []),
    ("module at a path", {"a/src/low.rs": '#[path = "far/else.rs"] mod there;', "a/src/far/else.rs": "use crate::high::H;"}, ORDER, ["else.rs:1: low uses high"]),
    ("crate that is not permitted", {"Cargo.toml": '[workspace]\nmembers = ["a", "b"]\ndependencies.b = {package = "the-b", path = "b"}',
      "a/Cargo.toml": '[package]\nname = "a"\n[dependencies]\nb.workspace = true', "b/Cargo.toml": '[package]\nname = "the-b"', "b/src/lib.rs": ""},
     ORDER + "\n[b]", ["a depends on b"]),
    ("crate that is not used", {}, ORDER + "\ncrates: b", ["permits b, which a does not use"]),
    ("external crate behind another", {"a/Cargo.toml": '[package]\nname = "a"\n[dependencies]\nx = "1"\n[dev-dependencies]\nhttp = "1"',
      "Cargo.lock": '[[package]]\nname = "x"\ndependencies = ["tokio 1.0"]'}, ORDER + "\nnever: tokio http", ["must not depend on tokio: a -> x -> tokio"]),
    ("crate without a section", {}, "", ["the crate a has no section"]),
]
