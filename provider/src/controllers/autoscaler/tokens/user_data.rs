//! The place of the token in the user data of a group. Pure.

use crate::InputError;

/// Text of a group's user data that the token of a machine replaces.
pub(crate) const PLACEHOLDER: &str = "{{ bootstrap-token }}";

/// Checks the user data of a group with or without `token`.
///
/// # Errors
///
/// If the placeholder is missing, or stands in data of a group without `token`.
pub(crate) fn check(user_data: &str, has_token: bool) -> Result<(), InputError> {
    match (user_data.contains(PLACEHOLDER), has_token) {
        (false, true) => {
            let err = InputError::new(format!("the user data has no {PLACEHOLDER}"));
            Err(err.remedy("write it, as plain text, in place of the token, or remove `token`"))
        }
        (true, false) => {
            let err = InputError::new(format!("the user data has {PLACEHOLDER}"));
            Err(err.remedy("add `token: {}` to `bootstrap` of the group, or write a token"))
        }
        _ => Ok(()),
    }
}
