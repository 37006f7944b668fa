//! Finds calls with a session after an answer has said that the session has ended.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::ledger::Record;
use sim::world::Time;

use crate::judge::Invariant::NoDeadSession;
use crate::judge::Violation;
use crate::lab::Run;

/// World time that an answer may need to reach a client on the real clock, where world time runs
/// faster.
const ON_THE_WAY: Duration = Duration::from_secs(30);

/// Returns the calls that use a session and began after an answer had told the client that this
/// session has ended. With a provider on the real clock, calls within [`ON_THE_WAY`] of that answer
/// do not count.
///
/// The digest in the ledger identifies the session; two clients never share one. An answer that a
/// fault rule made up counts too, because the client cannot distinguish it.
pub(in crate::judge) fn violations(run: &Run) -> Vec<Violation> {
    let slack = if run.hosted { ON_THE_WAY } else { Duration::ZERO };
    let mut dead: BTreeMap<(&str, &str), Time> = BTreeMap::new();
    for call in run.calls().filter(|call| call.is_vcenter_call() && is_refused(call)) {
        let (Some(session), Some(ended)) = (&call.session, &call.ended) else { continue };
        let known = dead.entry((&call.server, session)).or_insert(ended.at);
        *known = (*known).min(ended.at);
    }
    let after = |call: &Record| {
        let session = call.session.as_deref()?;
        let known = *dead.get(&(call.server.as_str(), session))?;
        (call.t > known + slack).then_some(known)
    };
    let used = run.calls().filter(|call| call.is_vcenter_call());
    used.filter_map(|call| {
        let known = after(call)?;
        let text = format!(
            "the client uses a session that has ended, as an answer said at {known}: {call}"
        );
        Some(Violation { invariant: NoDeadSession, at: call.t, text })
    })
    .collect()
}

/// True if the client received an answer that refuses the call because the client has no valid
/// session.
fn is_refused(call: &Record) -> bool {
    let ended = call.ended.as_ref().filter(|ended| ended.broken.is_none());
    let fault = ended.and_then(|ended| ended.fault.as_deref());
    fault.is_some_and(|fault| {
        fault == "NotAuthenticated" || fault.eq_ignore_ascii_case("unauthenticated")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{self, Stage};
    use crate::scenario::Scenario;

    #[test]
    fn a_second_use_of_an_ended_session_breaks_the_invariant() {
        let topology = sim::world::Topology::zones(1).machines(2);
        let scenario = Scenario::new("", topology, Duration::from_secs(120))
            .at(Duration::from_secs(60), crate::scenario::Backend::VCenter.disconnect());
        let mut run = lab::run(&scenario, &Stage::default());
        let refused = run.calls().find(|call| is_refused(call)).expect("a session expires").clone();
        assert_eq!(violations(&run), []);
        let again = Record { t: refused.t + Duration::from_secs(1), ..refused };
        run.ledger.push(again);
        assert_eq!(violations(&run).len(), 1);
    }
}
