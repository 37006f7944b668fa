//! Conversion of a guest's bootstrap data: v1alpha1 names a resource and a transport, later
//! versions have a structure per bootstrap method.

use serde_json::{Map, Value, json};

use super::first::CONFIG_MAP;
use crate::supervisor::conversion::document::{Document, is_empty, text, value_at};

/// Fields of `linuxPrep` that v1alpha1 … v1alpha4 do not have.
pub(super) const LINUX: [&str; 4] =
    ["expirePasswordAfterNextLogin", "password", "scriptText", "customizeAtNextPowerOn"];

const CLOUD_INIT: [&str; 6] = [
    "cloudConfig",
    "sshAuthorizedKeys",
    "useGlobalNameserversAsDefault",
    "useGlobalSearchDomainsAsDefault",
    "waitOnNetwork4",
    "waitOnNetwork6",
];

const USER_DATA: &str = "user-data";
const EXTRA_CONFIG_KEY: &str = "guestinfo.userdata";

pub(super) fn down(hub: &Value, spoke: &mut Document) {
    let bootstrap = value_at(hub, "/spec/bootstrap").filter(|it| !is_empty(it));
    let Some(bootstrap) = bootstrap else { return };
    let has = |field: &str| value_at(bootstrap, field).is_some();
    let (transport, name) = if has("/cloudInit") {
        let transport = match text(bootstrap, "/cloudInit/rawCloudConfig/key") {
            EXTRA_CONFIG_KEY => "ExtraConfig",
            _ => "CloudInit",
        };
        (transport, text(bootstrap, "/cloudInit/rawCloudConfig/name"))
    } else if has("/sysprep") {
        ("Sysprep", text(bootstrap, "/sysprep/rawSysprep/name"))
    } else if has("/vAppConfig") {
        let transport = if has("/linuxPrep") { "OvfEnv" } else { "vAppConfig" };
        (transport, text(bootstrap, "/vAppConfig/rawProperties"))
    } else {
        ("", "")
    };
    let resource =
        if spoke.annotation(CONFIG_MAP).is_some() { "configMapName" } else { "secretName" };
    spoke.put("/spec/vmMetadata", json!({"transport": transport, resource: name}));
}

pub(super) fn up(spoke: &Value, hub: &mut Document) {
    let metadata = value_at(spoke, "/spec/vmMetadata").filter(|it| !is_empty(it));
    let Some(metadata) = metadata else { return };
    let (secret, config_map) = (text(metadata, "/secretName"), text(metadata, "/configMapName"));
    let name = if secret.is_empty() { config_map } else { secret };
    let selected = |field: &str, key: &str| match name {
        "" => json!({}),
        name => json!({field: {"name": name, "key": key}}),
    };
    let vapp = json!({"rawProperties": name});
    let bootstrap = match text(metadata, "/transport") {
        "ExtraConfig" => json!({"cloudInit": selected("rawCloudConfig", EXTRA_CONFIG_KEY)}),
        "CloudInit" => json!({"cloudInit": selected("rawCloudConfig", USER_DATA)}),
        "Sysprep" => json!({"sysprep": selected("rawSysprep", "unattend")}),
        "OvfEnv" => json!({"linuxPrep": {"hardwareClockIsUTC": true}, "vAppConfig": vapp}),
        "vAppConfig" => json!({"vAppConfig": vapp}),
        _ => json!({}),
    };
    hub.put("/spec/bootstrap", bootstrap);
    if !config_map.is_empty() && hub.annotation(CONFIG_MAP).is_none() {
        hub.annotate(CONFIG_MAP, "true".into());
    }
}

/// Restores the fields of the bootstrap that v1alpha1 does not have.
pub(super) fn restore(object: &mut Document, kept: &Value) {
    let Some(kept) = value_at(kept, "/spec/bootstrap") else { return };
    let Some(mut bootstrap) = value_at(&object.0, "/spec/bootstrap").cloned().map(Document) else {
        // v1alpha1 cannot express a bootstrap that has only these fields.
        let alone: Map<String, Value> = ["linuxPrep", "disabled"]
            .into_iter()
            .filter_map(|field| Some((field.to_owned(), kept.get(field)?.clone())))
            .collect();
        if !alone.is_empty() {
            object.put("/spec/bootstrap", alone);
        }
        return;
    };
    let both = |bootstrap: &Document, field: &str| {
        value_at(&bootstrap.0, field).is_some() && value_at(kept, field).is_some()
    };
    if both(&bootstrap, "/cloudInit") {
        copy(&mut bootstrap, kept, "/cloudInit", &CLOUD_INIT);
        merge_selector(&mut bootstrap, kept, "/cloudInit/rawCloudConfig");
    }
    if both(&bootstrap, "/linuxPrep") {
        copy(&mut bootstrap, kept, "/linuxPrep", &["hardwareClockIsUTC", "timeZone"]);
        copy(&mut bootstrap, kept, "/linuxPrep", &LINUX);
    }
    if both(&bootstrap, "/sysprep") {
        copy(&mut bootstrap, kept, "/sysprep", &["sysprep", "customizeAtNextPowerOn"]);
        merge_selector(&mut bootstrap, kept, "/sysprep/rawSysprep");
        // A machine may use both sysprep and vApp properties, but v1alpha1 names only one
        // transport.
        if value_at(kept, "/vAppConfig").is_some()
            && value_at(&bootstrap.0, "/vAppConfig").is_none()
        {
            bootstrap.put("/vAppConfig", json!({}));
        }
    }
    if both(&bootstrap, "/vAppConfig") {
        copy(&mut bootstrap, kept, "/vAppConfig", &["properties", "rawProperties"]);
    }
    bootstrap.put_found("/disabled", kept.get("disabled"));
    object.put("/spec/bootstrap", bootstrap.0);
}

fn copy(bootstrap: &mut Document, kept: &Value, part: &str, fields: &[&str]) {
    for field in fields {
        let pointer = format!("{part}/{field}");
        bootstrap.put_found(&pointer, value_at(kept, &pointer));
    }
}

/// Restores the field `key` of the reference to a Secret at `pointer`. The name of the Secret
/// stays, because a client may have changed it.
fn merge_selector(bootstrap: &mut Document, kept: &Value, pointer: &str) {
    if value_at(&bootstrap.0, pointer).is_some()
        && let Some(key) = value_at(kept, &format!("{pointer}/key"))
    {
        bootstrap.put(&format!("{pointer}/key"), key.clone());
    }
}
