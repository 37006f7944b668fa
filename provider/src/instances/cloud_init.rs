//! Addresses that were configured statically through cloud-init's `guestinfo.metadata`; they are preferred.
//!
//! Follows `cloud-provider-vsphere: pkg/cloudprovider/vsphere/nodemanager.go`,
//! `sortStaticallyConfiguredAddressesFirst`, with cards in order of name where upstream's order is random.

use std::net::IpAddr;

use base64::Engine as _;
use serde_json::Value;

/// Statically configured addresses in order of preference; none when there is no (base64) metadata.
pub(crate) fn addresses(
    metadata: Option<&str>,
    encoding: Option<&str>,
) -> Result<Vec<IpAddr>, String> {
    let Some(metadata) = metadata.filter(|m| !m.is_empty()) else { return Ok(Vec::new()) };
    if encoding != Some("base64") {
        return Ok(Vec::new());
    }
    let document = yaml(&decode(metadata)?)?;
    let network = match (document.get("network"), document.get("network.encoding")) {
        (None, _) => return Ok(Vec::new()),
        (Some(Value::String(text)), Some(Value::String(encoding))) => match encoding.as_str() {
            "base64" | "b64" => yaml(&decode(text)?)?,
            "gzip+base64" | "gz+b64" => {
                return Err("gzip-compressed network configuration is not read yet".to_owned());
            }
            other => return Err(format!("unknown network.encoding {other:?}")),
        },
        (Some(Value::String(text)), None) => yaml(text)?,
        (Some(inline), _) => inline.clone(),
    };
    // The network document may or may not repeat the `network` key around it, as netplan files do.
    let network = network.get("network").unwrap_or(&network);
    let mut addresses = Vec::new();
    if let Some(Value::Object(cards)) = network.get("ethernets") {
        let mut names: Vec<&String> = cards.keys().collect();
        names.sort();
        for name in names {
            let Some(Value::Array(list)) = cards[name].get("addresses") else { continue };
            for entry in list.iter().filter_map(Value::as_str) {
                let host = entry.split('/').next().unwrap_or_default();
                addresses.extend(host.trim().parse::<IpAddr>().ok());
            }
        }
    }
    Ok(addresses)
}

fn decode(text: &str) -> Result<String, String> {
    let compact: String = text.split_whitespace().collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(compact)
        .map_err(|err| format!("not base64: {err}"))?;
    String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
}

fn yaml(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|err| format!("not YAML: {err}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_addresses_are_read_in_order_of_card_name() {
        let inline = "network:\n  ethernets:\n    eth1:\n      addresses: [10.0.1.1/24]\n    eth0:\n      addresses: [10.0.0.2/24, 'fd00::2/64']\n";
        let b64 = |t: &str| base64::engine::general_purpose::STANDARD.encode(t);
        let want: Vec<IpAddr> =
            ["10.0.0.2", "fd00::2", "10.0.1.1"].map(|a| a.parse().unwrap()).into();
        assert_eq!(addresses(Some(&b64(inline)), Some("base64")), Ok(want.clone()));
        let nested = format!("network: {}\nnetwork.encoding: base64\n", b64(inline));
        assert_eq!(addresses(Some(&b64(&nested)), Some("base64")), Ok(want));
        assert_eq!(addresses(Some(&b64(inline)), None), Ok(vec![]));
        assert_eq!(addresses(None, None), Ok(vec![]));
        assert!(addresses(Some("%%%"), Some("base64")).is_err());
    }
}
