//! Tests of tokens, mirrors and errors.

use std::{sync::Arc, time::Duration};

use http::Method;
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::{mirror::Node, *};
use crate::{
    cluster::{self, ClusterError, ObjectView as _},
    controllers::autoscaler::group::GroupId,
};

const LIFE: Duration = Duration::from_secs(3600);

fn key() -> MachineKey {
    MachineKey { name: "g-abcde".to_owned(), bios_uuid: Uuid::from_u128(7) }
}

/// The Secret of a token as the API server shows it.
fn secret(id: &str, expires: Timestamp, version: &str) -> Value {
    let token = Token::parse(&format!("{id}.0123456789abcdef")).unwrap();
    let origin = Origin { label: "origin", value: "o".to_owned() };
    let mut object =
        token.manifest(&key(), &origin, ("g", &GroupId::of_clones("g")), (expires, LIFE));
    object["metadata"]["uid"] = id.into();
    object["metadata"]["resourceVersion"] = version.into();
    object
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
        ClusterError::TimedOut { method: Method::POST, path: TOKENS.to_owned(), deadline: LIFE };
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
        secret(id, Timestamp::from_second(version.parse().unwrap()).unwrap(), version)
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

#[test]
fn a_secret_of_another_program_is_not_a_token_and_debug_output_hides_it() {
    let object = secret("abcdef", Timestamp::UNIX_EPOCH, "1");
    let read = TokenSecret::read(&object).unwrap();
    assert_eq!((&read.key, read.ttl), (&key(), Some(LIFE)));
    let own = read.token.as_ref().map(|it| it.text().expose_secret().to_owned());
    assert_eq!(own.as_deref(), Some("abcdef.0123456789abcdef"));
    assert!(!format!("{read:?}").contains("0123456789abcdef"), "debug output");
    for change in [
        |it: &mut Value| it["type"] = "Opaque".into(),
        |it: &mut Value| it["metadata"]["name"] = "abcdef".into(),
        |it: &mut Value| it["metadata"]["labels"] = json!({}),
    ] {
        let mut object = object.clone();
        change(&mut object);
        assert!(TokenSecret::read(&object).is_none());
    }
}
