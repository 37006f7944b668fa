//! Reads the addresses that `guestinfo.metadata`, the input of cloud-init, configures statically.
//! The selection prefers them.
//!
//! Follows `cloud-provider-vsphere: pkg/cloudprovider/vsphere/nodemanager.go`,
//! `sortStaticallyConfiguredAddressesFirst`, except that cards are ordered by name, where
//! upstream's order is random.

use std::{io::Read as _, net::IpAddr};

use base64::Engine as _;
use flate2::read::MultiGzDecoder;
use serde_json::Value;

/// Largest accepted network document in bytes after decompression. Anyone who can edit the machine
/// can write the document, and a hundred kilobytes of gzip can grow to a hundred megabytes. Real
/// documents have a few hundred bytes per card.
const MAX_UNPACKED: u64 = 1024 * 1024;

/// Returns the statically configured addresses in order of preference. Returns none if the metadata
/// are missing, are not encoded as `base64`, or configure no address of an Ethernet card. Leaves
/// out entries that are not IP addresses. The error says why the metadata cannot be decoded.
pub(crate) fn addresses(
    metadata: Option<&str>,
    encoding: Option<&str>,
) -> Result<Vec<IpAddr>, String> {
    let Some(metadata) = metadata.filter(|m| !m.is_empty()) else { return Ok(Vec::new()) };
    if encoding != Some("base64") {
        return Ok(Vec::new());
    }
    let document = yaml(&text(decode(metadata)?)?)?;
    let network = match (document.get("network"), document.get("network.encoding")) {
        (None, _) => return Ok(Vec::new()),
        (Some(Value::String(text)), Some(Value::String(encoding))) => match encoding.as_str() {
            "base64" | "b64" => yaml(&self::text(decode(text)?)?)?,
            "gzip+base64" | "gz+b64" => yaml(&self::text(unpack(&decode(text)?)?)?)?,
            other => {
                return Err(format!(
                    "unknown network.encoding {other:?}; use base64 or gzip+base64"
                ));
            }
        },
        (Some(Value::String(text)), None) => yaml(text)?,
        (Some(inline), _) => inline.clone(),
    };
    // Like netplan files, the network document may have a `network` key around its content, or not.
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

fn decode(text: &str) -> Result<Vec<u8>, String> {
    let compact: String = text.split_whitespace().collect();
    base64::engine::general_purpose::STANDARD
        .decode(compact)
        .map_err(|err| format!("not base64: {err}"))
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>, String> {
    let mut unpacked = Vec::new();
    let mut limited = MultiGzDecoder::new(packed).take(MAX_UNPACKED + 1);
    limited.read_to_end(&mut unpacked).map_err(|err| format!("not gzip: {err}"))?;
    if unpacked.len() as u64 > MAX_UNPACKED {
        return Err(format!("unpacks to more than {MAX_UNPACKED} bytes; make it smaller"));
    }
    Ok(unpacked)
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
}

fn yaml(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|err| format!("not YAML: {err}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    const NETWORK: &str = "ethernets:\n  eth1:\n    addresses: [10.0.1.1/24]\n  eth0:\n    addresses: [10.0.0.2/24, 'fd00::2/64']\n";

    fn b64(bytes: impl AsRef<[u8]>) -> String {
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    fn nested(network: &str, encoding: &str) -> String {
        format!("network: {network}\nnetwork.encoding: {encoding}\n")
    }

    #[test]
    fn static_addresses_are_read_in_order_of_card_name_from_every_encoding() {
        let want: Vec<IpAddr> =
            ["10.0.0.2", "fd00::2", "10.0.1.1"].map(|a| a.parse().unwrap()).into();
        let indented = NETWORK.replace('\n', "\n  ");
        let wrapped = format!("network:\n  {indented}");
        let packed = b64(gzip(NETWORK.as_bytes()));
        let (first, second) = packed.split_at(packed.len() / 2);
        let in_lines = format!("network: |\n  {first}\n  {second}\nnetwork.encoding: gz+b64\n");
        for (name, document) in [
            ("inline", wrapped.clone()),
            ("inline, as text", format!("network: |\n  {indented}")),
            ("base64", nested(&b64(NETWORK), "base64")),
            ("b64", nested(&b64(NETWORK), "b64")),
            ("base64, with the key around it", nested(&b64(&wrapped), "base64")),
            ("gzip+base64", nested(&packed, "gzip+base64")),
            ("gz+b64", nested(&packed, "gz+b64")),
            ("gz+b64, in lines", in_lines),
            (
                "gzip+base64, with the key around it",
                nested(&b64(gzip(wrapped.as_bytes())), "gzip+base64"),
            ),
        ] {
            let found = addresses(Some(&b64(document)), Some("base64"));
            assert_eq!(found.as_ref(), Ok(&want), "{name}");
        }
    }

    #[test]
    fn no_metadata_means_no_preference() {
        let document = b64(nested(&b64(NETWORK), "base64"));
        for (name, metadata, encoding) in [
            ("none", None, None),
            ("empty", Some(""), Some("base64")),
            ("not encoded as upstream wants it", Some(document.as_str()), None),
            ("another encoding", Some(document.as_str()), Some("gzip+base64")),
            ("no network", Some("aW5zdGFuY2UtaWQ6IGEK"), Some("base64")),
        ] {
            assert_eq!(addresses(metadata, encoding), Ok(vec![]), "{name}");
        }
    }

    #[test]
    fn unreadable_or_oversized_metadata_is_an_error() {
        let bomb = gzip(&vec![b' '; 64 * 1024 * 1024]);
        assert!(bomb.len() < 100_000, "a small text that would fill memory");
        let packed = gzip(NETWORK.as_bytes());
        for (name, document, want) in [
            ("no base64 inside", nested("'%%%'", "base64"), "not base64"),
            ("plain base64 called gzip", nested(&b64(NETWORK), "gzip+base64"), "not gzip"),
            ("cut off", nested(&b64(&packed[..packed.len() / 2]), "gz+b64"), "not gzip"),
            ("a bomb", nested(&b64(bomb), "gz+b64"), "unpacks to more than 1048576 bytes"),
            ("not text", nested(&b64(gzip(&[0xff, 0xfe])), "gz+b64"), "not UTF-8"),
            ("not YAML", nested(&b64(gzip(b"a: [")), "gz+b64"), "not YAML"),
            ("unknown", nested("abc", "zip"), "unknown network.encoding \"zip\""),
        ] {
            let err = addresses(Some(&b64(document)), Some("base64")).unwrap_err();
            assert!(err.starts_with(want), "{name}: {err}");
        }
        assert!(addresses(Some("%%%"), Some("base64")).is_err());
    }
}
