//! Base64 decoding by Go's rules.
//!
//! Go ignores line ends and the unused bits of the last letter. The position of an error follows
//! `decodeQuantum` of `encoding/base64`.

use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, PAD};
use base64::{Engine as _, alphabet};

const STANDARD: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));
const URL_SAFE: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// Decodes base64 with padding.
///
/// # Errors
/// Go's error text for invalid base64.
pub(crate) fn base64(text: &str) -> Result<Vec<u8>, String> {
    read(&STANDARD, text, &alphabet::STANDARD, true)
}

/// Decodes URL-safe base64 without padding.
///
/// # Errors
/// Go's error text for invalid base64.
pub(crate) fn base64_of_url(text: &str) -> Result<Vec<u8>, String> {
    read(&URL_SAFE, text, &alphabet::URL_SAFE, false)
}

fn read(
    engine: &GeneralPurpose,
    text: &str,
    alphabet: &alphabet::Alphabet,
    is_padded: bool,
) -> Result<Vec<u8>, String> {
    let compact: Vec<u8> = text.bytes().filter(|byte| !is_line_end(*byte)).collect();
    engine.decode(compact).map_err(|_| {
        let at = fault(text.as_bytes(), alphabet.as_str().as_bytes(), is_padded);
        format!("illegal base64 data at input byte {at}")
    })
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// Returns the byte position at which Go reports invalid base64.
fn fault(text: &[u8], letters: &[u8], is_padded: bool) -> usize {
    // Number of letters in the current group of four.
    let mut n_group = 0;
    let mut bytes = text.iter().copied().enumerate().filter(|(_, byte)| !is_line_end(*byte));
    while let Some((at, byte)) = bytes.next() {
        if letters.contains(&byte) {
            n_group = (n_group + 1) % 4;
            continue;
        }
        if !is_padded || byte != b'=' || n_group < 2 {
            return at;
        }
        if n_group == 2 {
            match bytes.next() {
                None => return text.len(),
                // Go reports the position before this byte, which may be that of a line end.
                Some((at, byte)) if byte != b'=' => return at - 1,
                Some(_) => {}
            }
        }
        return bytes.next().map_or(text.len(), |(at, _)| at);
    }
    // The last group is incomplete.
    text.len() - n_group
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The positions are answers of the real server (1.36.3) for data of a Secret.
    #[test]
    fn base64_errors_have_the_byte_positions_of_go() {
        for (text, at) in [
            ("Y\nQ=", 4),
            ("YQ=", 3),
            ("YQ", 0),
            ("Y", 0),
            ("Y===", 1),
            ("====", 0),
            ("=", 0),
            ("YQ==x", 4),
            ("YQ==\nx", 5),
            ("YQ==YQ==", 4),
            ("Y Q=", 1),
            ("YW\nI", 1),
            ("YWJj\nZ", 5),
            ("YWJj*", 4),
            ("YQ=x", 2),
            ("YQ=\nx", 3),
            ("é", 0),
            ("YWé", 2),
            ("YWJjYQ", 4),
            ("\n\nYWJj\nYQ=", 10),
            ("YQ==\n\n=", 6),
            ("a-_b", 1),
        ] {
            let want = format!("illegal base64 data at input byte {at}");
            assert_eq!(base64(text), Err(want), "{text:?}");
        }
        for (text, at) in
            [("e", 0), ("=", 0), ("e30=", 3), ("a\nb*", 3), ("e3\n0=", 4), ("e30-_+", 5)]
        {
            let want = format!("illegal base64 data at input byte {at}");
            assert_eq!(base64_of_url(text), Err(want), "{text:?}");
        }
    }

    #[test]
    fn base64_decoding_ignores_line_ends_and_trailing_bits() {
        for text in ["YQ==", "YR==", "Y\nQ==", "YQ=\n=", "YR=\r\n=", "YQ==\r\n\r\n"] {
            assert_eq!(base64(text).unwrap(), b"a", "{text:?}");
        }
        assert_eq!(base64("YWJ=").unwrap(), b"ab");
        assert_eq!(base64("\n").unwrap(), b"");
        for text in ["e30", "e31", "e3\n0", "e30\n"] {
            assert_eq!(base64_of_url(text).unwrap(), b"{}", "{text:?}");
        }
    }
}
