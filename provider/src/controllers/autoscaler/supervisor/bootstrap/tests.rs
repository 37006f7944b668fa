//! Tests of user data and plans.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    super::super::{
        group::GroupId,
        tokens::{Item as _, PLACEHOLDER, Token, TokenSecret, check, decoded},
    },
    data::{self, MachineData},
    plan::{Observed, Presence, Step, next},
    *,
};

const TTL: Duration = Duration::from_secs(3600);

fn key() -> MachineKey {
    MachineKey { name: "g-abcde".to_owned(), bios_uuid: Uuid::from_u128(7) }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn with_identity(mut object: Value, uid: &str, version: &str) -> Value {
    object["metadata"]["uid"] = uid.into();
    object["metadata"]["resourceVersion"] = version.into();
    object
}

/// A token that expires after this number of seconds.
fn token(id: &str, seconds: i64) -> TokenSecret {
    let token = Token::parse(&format!("{id}.0123456789abcdef")).unwrap();
    let expires = Timestamp::from_second(now().as_second() + seconds).unwrap();
    let origin = Origin { label: NAMESPACE_LABEL, value: "ns".to_owned() };
    let group = GroupId::of_virtual_machines("ns", "g");
    let object = token.manifest(&key(), &origin, ("g", &group), (expires, TTL));
    TokenSecret::read(&with_identity(object, &format!("uid-{id}"), "1")).unwrap()
}

/// The user data of the machine with the token `abcdef`, changed by `change`.
fn data(change: impl FnOnce(&mut Value)) -> MachineData {
    let token = Token::parse("abcdef.0123456789abcdef").unwrap();
    let object = data::manifest(&key(), ("ns", "g"), PLACEHOLDER, (&token, TTL));
    let mut object = with_identity(object, "uid-data", "1");
    object["metadata"]["ownerReferences"] = json!([{"uid": "uid-vm"}]);
    change(&mut object);
    MachineData::read(&object).unwrap()
}

/// Returns the next step as a word with the name of its Secret.
fn planned(
    presence: Presence<'_>,
    is_node: bool,
    data: Option<&MachineData>,
    tokens: &[&TokenSecret],
) -> String {
    match next(&Observed { presence, is_node, data, tokens }, now()) {
        None => "nothing".to_owned(),
        Some(Step::Own { machine_uid, .. }) => format!("own by {machine_uid}"),
        Some(Step::NoteJoin(_)) => "note".to_owned(),
        Some(Step::Renew { token, ttl }) => format!("renew {} for {ttl:?}", token.id),
        Some(Step::Restore(_)) => "restore".to_owned(),
        Some(Step::Revoke(token)) => format!("revoke {}", token.id),
        Some(Step::Remove(_)) => "remove".to_owned(),
    }
}

#[test]
fn the_next_write_follows_from_machine_node_data_and_tokens() {
    let exists = Presence::Exists { uid: "uid-vm" };
    let whole = data(|_| {});
    let unowned = data(|it| it["metadata"]["ownerReferences"] = Value::Null);
    let joined = data(|it| it["data"]["bootstrap-token"] = Value::Null);
    let (fresh, old) = (token("abcdef", 1801), token("abcdef", 1799));
    let (expired, far) = (token("abcdef", -9), token("abcdef", 7201));
    let stray = token("zzzzzz", 3600);
    for (name, presence, is_node, data, tokens, want) in [
        ("a machine that boots", exists, false, Some(&whole), vec![&fresh], "nothing"),
        (
            "half of the life is over",
            exists,
            false,
            Some(&whole),
            vec![&old],
            "renew abcdef for 3600s",
        ),
        ("expired", exists, false, Some(&whole), vec![&expired], "renew abcdef for 3600s"),
        ("the clock went back", exists, false, Some(&whole), vec![&far], "renew abcdef for 3600s"),
        ("cleaned up", exists, false, Some(&whole), vec![], "restore"),
        ("a crash before the owner", exists, false, Some(&unowned), vec![&fresh], "own by uid-vm"),
        ("a Node", exists, true, Some(&whole), vec![&fresh], "note"),
        ("a Node without token", exists, true, Some(&whole), vec![], "note"),
        ("noted", exists, true, Some(&joined), vec![&fresh], "revoke abcdef"),
        ("noted, and the Node is gone", exists, false, Some(&joined), vec![&old], "revoke abcdef"),
        ("done", exists, true, Some(&joined), vec![], "nothing"),
        ("done, and the Node is gone", exists, false, Some(&joined), vec![], "nothing"),
        ("a second token", exists, false, Some(&whole), vec![&fresh, &stray], "revoke zzzzzz"),
        ("lost data", exists, false, None, vec![&old], "nothing"),
        ("in deletion", Presence::Deleting, false, Some(&whole), vec![&fresh], "revoke abcdef"),
        ("in deletion, revoked", Presence::Deleting, false, Some(&whole), vec![], "nothing"),
        ("not made yet", Presence::Absent, false, Some(&unowned), vec![&old], "nothing"),
        ("never made", Presence::Gone, false, Some(&unowned), vec![&fresh], "revoke abcdef"),
        ("never made, revoked", Presence::Gone, false, Some(&unowned), vec![], "remove"),
        ("gone", Presence::Gone, false, Some(&whole), vec![], "nothing"),
        ("gone before its data", Presence::Gone, false, None, vec![&fresh], "revoke abcdef"),
    ] {
        assert_eq!(planned(presence, is_node, data, &tokens), want, "{name}");
    }
}

#[test]
fn a_token_is_debugged_without_its_secret() {
    let shown = format!("{:?} {:?}", Token::parse("abcdef.0123456789abcdef"), data(|_| {}));
    assert!(shown.contains("abcdef") && !shown.contains("0123456789abcdef"), "{shown}");
}

#[test]
fn user_data_needs_the_placeholder_exactly_with_token() {
    let both = format!("a {PLACEHOLDER} b {PLACEHOLDER}");
    assert_eq!((check(&both, true), check("a", false)), (Ok(()), Ok(())));
    let without = check("a {{bootstrap-token}}", true).unwrap_err().to_string();
    assert!(without.contains("has no {{ bootstrap-token }}; write it"), "{without}");
    let with = check(&both, false).unwrap_err().to_string();
    assert!(with.contains("has {{ bootstrap-token }}; add `token: {}`"), "{with}");
    let token = Token::parse("abcdef.0123456789abcdef").unwrap();
    let object = data::manifest(&key(), ("ns", "g"), &both, (&token, TTL));
    let user_data = decoded(&object["data"]["user-data"]).unwrap();
    assert_eq!(user_data, "a abcdef.0123456789abcdef b abcdef.0123456789abcdef");
}

#[test]
fn a_copy_of_the_data_of_a_machine_is_not_its_data() {
    let token = Token::parse("abcdef.0123456789abcdef").unwrap();
    let object = data::manifest(&key(), ("ns", "g"), "", (&token, TTL));
    let mut object = with_identity(object, "u", "1");
    assert!(MachineData::read(&object).is_some());
    object["metadata"]["name"] = "another-name".into();
    assert!(MachineData::read(&object).is_none(), "a copy");
}
