//! Builds `index.html`: the results as one page that needs no network, with filters, and with
//! evidence for each check of which a played case did not pass.

use std::fmt::Write as _;

use super::{About, Tally};
use crate::cost::Table;
use crate::lab::Stage;
use crate::suite::Conclusion;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#222;background:#fff}\
h1{font-size:1.4rem}nav{position:sticky;top:0;background:#fff;padding:.6rem 0;border-bottom:1px solid #ddd}\
nav label{margin-right:1rem}input[type=search]{width:16rem}\
details{border-bottom:1px solid #eee;padding:.25rem 0}summary{cursor:pointer;display:flex;gap:.8rem}\
summary>b{flex:0 0 9rem}summary>i{flex:0 0 8rem;font-style:normal;font-weight:600}summary>u{flex:0 0 5rem;text-decoration:none;color:#666}\
.pass i{color:#17692e}.FAIL i{color:#b3001e}.flaky i,.inconclusive i,.harness-error i{color:#925c00}.skipped i,.not-supported i{color:#777}\
pre{background:#f6f6f6;padding:.7rem;overflow:auto;font-size:12px}dt{font-weight:600}dd{margin:0 0 .4rem}\
table{border-collapse:collapse}td,th{padding:.15rem .6rem;text-align:left}\
@media(prefers-color-scheme:dark){body,nav{background:#161616;color:#ddd}details,nav{border-color:#333}pre{background:#222}}";

const SCRIPT: &str = "\
const q=document.querySelector('#q'),s=document.querySelector('#s'),v=[...document.querySelectorAll('[data-v]')];\
function f(){for(const d of document.querySelectorAll('details')){\
const on=v.some(c=>c.checked&&c.dataset.v===d.dataset.verdict)&&(!s.value||s.value===d.dataset.surface)\
&&(!q.value||d.textContent.toLowerCase().includes(q.value.toLowerCase()));d.hidden=!on}}\
for(const e of [q,s,...v])e.addEventListener('input',f);f();";

/// Returns the page as HTML.
pub(super) fn page(
    about: &About,
    stage: &Stage,
    conclusions: &[Conclusion],
    cost: &[Table],
) -> String {
    let name = about.provider.as_ref().and_then(|it| it["name"].as_str());
    let title = name.map_or("Conformance".to_owned(), |name| format!("Conformance: {name}"));
    let title = escape(&title);
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style><h1>{title}</h1>\n"
    );
    let _ = writeln!(
        out,
        "<p>{}; seed {}; {}; time {}.</p>",
        Tally::count(conclusions),
        about.seed,
        escape(&about.stage),
        escape(&about.time)
    );
    if let Some(provider) = &about.provider {
        let text = serde_json::to_string_pretty(provider).unwrap_or_default();
        let _ = writeln!(
            out,
            "<details data-verdict=\"\" open><summary>Provider</summary><pre>{}</pre></details>",
            escape(&text)
        );
    }
    filters(&mut out, conclusions);
    for conclusion in conclusions {
        check(&mut out, stage, conclusion);
    }
    for cost in cost {
        let _ = writeln!(
            out,
            "<h2>Calls by phase and number of nodes</h2><pre>{}</pre>",
            escape(&cost.text())
        );
    }
    let _ = writeln!(out, "<script>{SCRIPT}</script></html>");
    out
}

fn filters(out: &mut String, conclusions: &[Conclusion]) {
    let distinct = |of: fn(&Conclusion) -> &str| {
        let mut all: Vec<&str> = conclusions.iter().map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    out.push_str("<nav><input id=q type=search placeholder=\"find\"> <select id=s><option value=\"\">every surface</option>");
    for surface in distinct(|it| it.entry.surface.as_str()) {
        let _ = write!(out, "<option>{}</option>", escape(surface));
    }
    out.push_str("</select> ");
    // The section about the provider has an empty verdict; this hidden, checked box keeps it
    // visible.
    out.push_str("<input type=checkbox checked hidden data-v=\"\">");
    for verdict in distinct(|it| it.verdict.word()) {
        let _ = write!(
            out,
            "<label><input type=checkbox checked data-v=\"{verdict}\"> {verdict}</label>"
        );
    }
    out.push_str("</nav>\n");
}

fn check(out: &mut String, stage: &Stage, conclusion: &Conclusion) {
    let Conclusion { entry, requirement, verdict, outcomes, not_run, .. } = conclusion;
    let requirement = format!("{requirement:?}").to_uppercase();
    let word = verdict.word();
    let _ = write!(
        out,
        "<details class=\"{word}\" data-verdict=\"{word}\" data-surface=\"{}\"><summary><b>{}</b><i>{word}</i><u>{requirement}</u><span>{}</span></summary><dl>",
        entry.surface,
        escape(entry.id.as_str()),
        escape(&entry.title)
    );
    let mut term = |name: &str, text: &str| {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(text));
    };
    if let Some(reason) = verdict.reason() {
        term("reason", &reason.to_string());
    }
    term("why", &entry.why);
    term("judged", &entry.oracle);
    term("remedy", &entry.remedy);
    term("source", &entry.source);
    term("level, class", &format!("{}, {}", entry.level, entry.class));
    out.push_str("</dl>");
    if outcomes.len() + not_run.len() > 1 {
        out.push_str("<table>");
        let ran = outcomes.iter().map(|it| (it.case.as_str(), &it.verdict));
        let not = not_run.iter().map(|(case, verdict)| (case.as_str(), verdict));
        for (case, verdict) in ran.chain(not) {
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td></tr>",
                escape(case),
                escape(&verdict.to_string())
            );
        }
        out.push_str("</table>");
    }
    if let Some(evidence) = conclusion.evidence(stage) {
        let _ = write!(out, "<pre>{}</pre>", escape(&evidence));
    }
    out.push_str("</details>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
