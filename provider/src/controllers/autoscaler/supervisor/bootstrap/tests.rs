//! Tests of tokens, user data, plans and errors.

use std::{sync::Arc, time::Duration};

use http::Method;
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    data::{self, MachineData, PLACEHOLDER, check},
    error::{BootstrapError, Side},
    mirror::{Item as _, Mirror},
    plan::{Observed, Presence, Step, next},
    token::{Token, TokenSecret, expiration},
    *,
};
use crate::cluster::{ClusterError, ObjectView as _};

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
    let object = token.manifest(&key(), ("ns", "g"), expires);
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
fn a_drawn_token_uses_every_letter_alike_and_a_failing_source_is_an_error() {
    let random: SecretRandom = {
        let state = std::sync::Mutex::new(1_u64);
        Arc::new(move |bytes| {
            let mut state = state.lock().unwrap();
            for byte in bytes {
                *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = state.to_be_bytes()[0];
            }
            Ok(())
        })
    };
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..6000 {
        let token = Token::draw(&random).unwrap();
        assert!(Token::parse(token.text().expose_secret()).is_some());
        for letter in token.secret_name()["bootstrap-token-".len()..].chars() {
            *counts.entry(letter).or_insert(0) += 1;
        }
    }
    assert_eq!(counts.len(), 36);
    let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
    assert!(*least > 900 && *most < 1100, "{counts:?}");
    let highest: SecretRandom = {
        let is_first = std::sync::Mutex::new(true);
        Arc::new(move |bytes| {
            bytes.fill(if std::mem::take(&mut *is_first.lock().unwrap()) { 252 } else { 0 });
            Ok(())
        })
    };
    assert_eq!(Token::draw(&highest).unwrap().id, "aaaaaa", "252 to 255 would favor some letters");
    let broken: SecretRandom = Arc::new(|_| Err("no source".to_owned()));
    assert_eq!(Token::draw(&broken).unwrap_err(), "no source");
    for text in
        ["abcdef", "abcde.0123456789abcdef", "abcdef.0123456789abcde", "Abcdef.0123456789abcdef"]
    {
        assert!(Token::parse(text).is_none(), "{text}");
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
    let user_data = token::decoded(&object["data"]["user-data"]).unwrap();
    assert_eq!(user_data, "a abcdef.0123456789abcdef b abcdef.0123456789abcdef");
}

#[test]
fn a_secret_of_another_program_is_neither_token_nor_data() {
    let token = Token::parse("abcdef.0123456789abcdef").unwrap();
    let object =
        with_identity(token.manifest(&key(), ("ns", "g"), expiration(now(), TTL)), "u", "1");
    assert_eq!(TokenSecret::read(&object).map(|it| it.key), Some(key()));
    for change in [
        |it: &mut Value| it["type"] = "Opaque".into(),
        |it: &mut Value| it["metadata"]["name"] = "abcdef".into(),
        |it: &mut Value| it["metadata"]["labels"] = json!({}),
    ] {
        let mut object = object.clone();
        change(&mut object);
        assert_eq!(TokenSecret::read(&object), None);
    }
    let object = data::manifest(&key(), ("ns", "g"), "", (&token, TTL));
    let mut object = with_identity(object, "u", "1");
    assert!(MachineData::read(&object).is_some());
    object["metadata"]["name"] = "another-name".into();
    assert!(MachineData::read(&object).is_none(), "a copy");
}

#[test]
fn an_error_has_the_permission_but_never_the_message_of_a_refused_write() {
    let refusal = |code, message: &str| ClusterError::Status {
        method: Method::POST,
        path: TOKENS.to_owned(),
        code,
        reason: "R".to_owned(),
        message: message.to_owned(),
        hints: Box::default(),
    };
    for (code, message, want) in [
        (
            403,
            "0123456789abcdef",
            "POST /api/v1/namespaces/kube-system/secrets was answered with 403 R: the account of --workload-kubeconfig (or of this pod) needs `create`",
        ),
        (403, "exceeded quota: 0123456789abcdef", "403 R: the quota of the namespace is used up"),
        (422, "Invalid value: 0123456789abcdef", "was answered with 422 R"),
    ] {
        let err = BootstrapError::of("creating", Side::Workload, &refusal(code, message));
        let shown = format!("{err} {err:?}");
        assert!(shown.contains(want) && !shown.contains("0123456789abcdef"), "{shown}");
    }
    let lost =
        ClusterError::TimedOut { method: Method::POST, path: TOKENS.to_owned(), deadline: TTL };
    let err = BootstrapError::of("creating", Side::Workload, &lost);
    assert!(err.to_string().contains("was not answered within"), "{err}");
}

#[tokio::test(start_paused = true)]
async fn a_mirror_of_nodes_wakes_only_for_what_the_plans_read() {
    let wake = Arc::new(Notify::new());
    let mirror: Mirror<Node> = Mirror::new(&wake);
    let node = |version: &str, id: &str| json!({"metadata": {"name": "n", "resourceVersion": version}, "spec": {"providerID": id}});
    let wakes = async |version: &str, id: &str| {
        mirror.changed(cluster::ObjectChange::Applied(&node(version, id)));
        tokio::time::timeout(Duration::from_secs(1), wake.notified()).await.is_ok()
    };
    assert!(wakes("1", "").await, "a new Node");
    assert!(!wakes("2", "").await, "a heartbeat");
    assert!(wakes("3", "vsphere://1").await, "the provider ID");
    assert!(!wakes("2", "").await, "an older state");
}

#[test]
fn a_mirror_takes_answers_events_and_lists_and_ignores_older_states() {
    let mirror: Mirror<TokenSecret> = Mirror::new(&Arc::default());
    let at = |id: &str, version: &str| {
        let token = Token::parse(&format!("{id}.0123456789abcdef")).unwrap();
        let expires = Timestamp::from_second(version.parse().unwrap()).unwrap();
        with_identity(token.manifest(&key(), ("ns", "g"), expires), id, version)
    };
    let shown = |mirror: &Mirror<TokenSecret>| {
        let all = mirror.all().unwrap_or_default();
        let seconds = |it: &TokenSecret| it.expires.unwrap().as_second();
        all.iter().map(|it| format!("{} {}", it.id, seconds(it))).collect::<Vec<_>>()
    };
    mirror.apply(&at("aaaaaa", "5"));
    assert!(mirror.all().is_none(), "before the first list");
    let before = mirror.before_list();
    mirror.apply(&at("bbbbbb", "6"));
    let listed = mirror.read(&at("aaaaaa", "4")).unwrap();
    mirror.listed(vec![listed], before, "5");
    assert_eq!(shown(&mirror), ["aaaaaa 5", "bbbbbb 6"], "created while the list was read");
    mirror.changed(cluster::ObjectChange::Applied(&at("bbbbbb", "9")));
    mirror.apply(&at("bbbbbb", "8"));
    mirror.changed(cluster::ObjectChange::Deleted(&at("aaaaaa", "10")));
    assert_eq!(shown(&mirror), ["bbbbbb 9"]);
    mirror.confirmed("20");
    let restored = mirror.read(&at("bbbbbb", "2")).unwrap();
    mirror.listed(vec![restored], mirror.before_list(), "7");
    assert_eq!(shown(&mirror), ["bbbbbb 2"], "the API server was restored");
}
