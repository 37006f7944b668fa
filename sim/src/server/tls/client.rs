//! Identity in a client's certificate: common name and organizations of its subject.
//!
//! rustls verifies the certificate in the handshake; this module only reads its subject.

use crate::Identity;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// Returns the user (common name) and the groups (organizations) in a DER certificate; `None` if
/// its subject has no common name or an empty one, or if the bytes cannot be parsed as a
/// certificate.
///
/// Follows `apiserver: pkg/authentication/request/x509`, `CommonNameUserConversion`.
pub(crate) fn identity(certificate: &[u8]) -> Option<Identity> {
    let mut certificate = Der(element(&mut Der(certificate), SEQUENCE)?);
    let mut body = Der(element(&mut certificate, SEQUENCE)?);
    if body.0.first() == Some(&VERSION) {
        body.next()?;
    }
    // Skips serial number, signature algorithm, issuer and validity.
    for _ in 0..4 {
        body.next()?;
    }
    let subject = Der(element(&mut body, SEQUENCE)?);
    let (mut user, mut groups) = (None, Vec::new());
    for (_, set) in subject {
        for (_, attribute) in Der(set) {
            let mut attribute = Der(attribute);
            let (_, kind) = attribute.next()?;
            let (_, text) = attribute.next()?;
            let text = || String::from_utf8_lossy(text).into_owned();
            if kind == COMMON_NAME {
                user = Some(text());
            } else if kind == ORGANIZATION {
                groups.push(text());
            }
        }
    }
    let user = user.filter(|user| !user.is_empty())?;
    Some(Identity { user, groups })
}

fn element<'a>(der: &mut Der<'a>, wanted: u8) -> Option<&'a [u8]> {
    der.next().filter(|(tag, _)| *tag == wanted).map(|(_, content)| content)
}

/// Iterator over the DER elements in a sequence of bytes: the tag and the content of each. Ends at
/// the first element that is not complete.
struct Der<'a>(&'a [u8]);

impl<'a> Iterator for Der<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            // A length in a certificate never needs more than five bytes.
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f).min(5))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;
    use crate::tls::Authority;

    #[test]
    fn the_subject_of_a_client_certificate_names_user_and_groups() {
        let authority = Authority::generate().unwrap();
        let leaf = authority.issue_client("jane", Some("developers")).unwrap();
        let der = CertificateDer::from_pem_slice(leaf.pem.as_bytes()).unwrap();
        let want = Identity { user: "jane".into(), groups: vec!["developers".into()] };
        assert_eq!(identity(&der), Some(want));
        for end in 0..der.len() {
            let _ = identity(&der[..end]);
        }
        assert_eq!(identity(b"nonsense"), None);
    }
}
