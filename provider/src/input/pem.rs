//! Parses the certificate of a server and its key.

use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};

use super::InputError;

/// Parses a chain and its key, and checks that they belong together.
pub(crate) fn certified_key(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, InputError> {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().map_err(|err| {
            let err = InputError::new(format!("the file is not valid PEM: {err}"));
            err.remedy("give a PEM file with certificates").in_flag("tls-cert-file")
        })?;
    if chain.is_empty() {
        let err = InputError::new("the file has no certificate").remedy("give a PEM file with one");
        return Err(err.in_flag("tls-cert-file"));
    }
    let unusable = |err: &dyn std::fmt::Display| {
        let err = InputError::new(format!("the file has no usable private key: {err}"));
        err.remedy("give a PEM file with one").in_flag("tls-private-key-file")
    };
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|err| unusable(&err))?;
    let key = ring::sign::any_supported_type(&key).map_err(|err| unusable(&err))?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(|err| {
        let what = format!("the key does not belong to the certificate of --tls-cert-file: {err}");
        InputError::new(what)
            .remedy("give the key of this certificate")
            .in_flag("tls-private-key-file")
    })?;
    Ok(certified)
}
