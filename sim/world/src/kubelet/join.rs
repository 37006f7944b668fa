//! User data of cloud-init that makes a machine join the workload cluster. Reads only what decides
//! how the Node registers: the token of `kubeadm join` and the kubelet's flags.

use jiff::Timestamp;

use super::{Labels, Taint};
use crate::objects::{GroupResource, Key, Store};

/// The part of user data that is about joining a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Join {
    /// Bootstrap token, such as `abcdef.0123456789abcdef`.
    token: Option<String>,
    /// Labels of `--node-labels`.
    pub(crate) labels: Labels,
    /// Taints of `--register-with-taints`.
    pub(crate) taints: Vec<Taint>,
    /// `--provider-id`.
    pub(crate) provider_id: String,
}

impl Join {
    /// Reads user data; `None` if it runs no `kubeadm join` and has no `JoinConfiguration`.
    pub(crate) fn read(user_data: &str) -> Option<Self> {
        if !user_data.contains("kubeadm join") && !user_data.contains("kind: JoinConfiguration") {
            return None;
        }
        let pairs = |text: &str| {
            let pairs = text.split(',').filter_map(|it| it.split_once('='));
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Labels>()
        };
        let taint = |(key, rest): (String, String)| {
            let (value, effect) = rest.rsplit_once(':')?;
            Some(Taint { key, value: value.to_owned(), effect: effect.to_owned() })
        };
        let flag = |name| value(user_data, name);
        Some(Self {
            token: flag("token").map(str::to_owned),
            labels: flag("node-labels").map(pairs).unwrap_or_default(),
            taints: flag("register-with-taints")
                .map(|it| pairs(it).into_iter().filter_map(taint).collect())
                .unwrap_or_default(),
            provider_id: flag("provider-id").unwrap_or_default().to_owned(),
        })
    }

    /// Checks the token against the Secrets of the cluster.
    ///
    /// # Errors
    ///
    /// Says why the API server refuses the token.
    pub(crate) fn admitted(&self, cluster: &Store, now: Timestamp) -> Result<(), String> {
        let token = self.token.as_deref().ok_or("the user data names no token")?;
        let (id, secret) = token
            .split_once('.')
            .filter(|(id, secret)| (id.len(), secret.len()) == (6, 16))
            .ok_or("the token does not have the form of a bootstrap token")?;
        let name = format!("bootstrap-token-{id}");
        let key = Key::new(GroupResource::core("secrets"), "kube-system", name.as_str());
        let object = cluster.get(&key).ok_or_else(|| format!("Secret {name} does not exist"))?;
        let field = |field: &str| decoded(object["data"][field].as_str()?);
        if field("token-secret").as_deref() != Some(secret) {
            return Err(format!("Secret {name} has another token-secret"));
        }
        if field("usage-bootstrap-authentication").as_deref() != Some("true") {
            return Err(format!("Secret {name} does not permit authentication"));
        }
        match field("expiration").map(|it| it.parse::<Timestamp>()) {
            Some(Ok(end)) if end <= now => Err(format!("the token of Secret {name} has expired")),
            Some(Err(_)) => Err(format!("Secret {name} has a malformed expiration")),
            _ => Ok(()),
        }
    }
}

/// Returns the value of a flag `--NAME VALUE` or `--NAME=VALUE`, or of a key `NAME: VALUE`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.match_indices(name).find_map(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let is_flag = before.ends_with("--");
        let is_key = !before.ends_with(is_word) && after.starts_with(':');
        if !(is_key || is_flag && after.starts_with([' ', '=', '\t'])) {
            return None;
        }
        let value = after.trim_start_matches([':', '=', ' ', '\t', '"', '\'']);
        let end = value.find(|c: char| c.is_whitespace() || "\"'".contains(c));
        Some(&value[..end.unwrap_or(value.len())]).filter(|it| !it.is_empty())
    })
}

/// Decodes text in Base64; `None` if it is malformed.
pub(crate) fn decoded(text: &str) -> Option<String> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text.trim()).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_keys_of_user_data_are_read() {
        let of_flags = "#cloud-config\nruncmd:\n- kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef \
                        --discovery-token-ca-cert-hash sha256:aa\n- echo --node-labels=a=b,c=d";
        let join = Join::read(of_flags).unwrap();
        assert_eq!(join.token.as_deref(), Some("abcdef.0123456789abcdef"));
        assert_eq!(join.labels.len(), 2);
        let of_keys = "kind: JoinConfiguration\ndiscovery:\n  bootstrapToken:\n    token: \"abcdef.0123456789abcdef\"\n\
                       nodeRegistration:\n  kubeletExtraArgs:\n    register-with-taints: batch=yes:NoSchedule,x=:NoExecute\n    \
                       provider-id: vsphere://1\n";
        let join = Join::read(of_keys).unwrap();
        assert_eq!(join.token.as_deref(), Some("abcdef.0123456789abcdef"));
        assert_eq!(join.provider_id, "vsphere://1");
        let taints: Vec<_> =
            join.taints.iter().map(|it| (&*it.key, &*it.value, &*it.effect)).collect();
        assert_eq!(taints, [("batch", "yes", "NoSchedule"), ("x", "", "NoExecute")]);
        assert_eq!(Join::read("#cloud-config\nruncmd: [reboot]"), None);
        assert_eq!(Join::read("kubeadm join").unwrap(), Join::default());
    }
}
