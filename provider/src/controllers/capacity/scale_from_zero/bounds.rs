//! Smallest and largest size of a group.

use super::Annotations;
use crate::InputError;

const MIN: &str = "cluster-api-autoscaler-node-group-min-size";
const MAX: &str = "cluster-api-autoscaler-node-group-max-size";

/// Sizes between which the autoscaler scales a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Smallest size.
    pub min: u32,
    /// Largest size.
    pub max: u32,
}

/// Reads the bounds. A missing one is zero.
pub(super) fn bounds(annotations: &Annotations<'_>) -> Result<Bounds, InputError> {
    let bounds = Bounds { min: size(annotations, MIN)?, max: size(annotations, MAX)? };
    if bounds.max < bounds.min {
        let err = InputError::invalid(&bounds.max.to_string(), "is below the minimum");
        let err = err.remedy(format!("write at least {}", bounds.min));
        return Err(err.at_key(format!("{}/{MAX}", annotations.api_group)));
    }
    Ok(bounds)
}

fn size(annotations: &Annotations<'_>, key: &str) -> Result<u32, InputError> {
    let Some(text) = annotations.of_group(key) else { return Ok(0) };
    text.parse::<i32>().ok().and_then(|size| u32::try_from(size).ok()).ok_or_else(|| {
        let err = InputError::invalid(text, "is not a number of machines");
        err.remedy("write 0 or more").at_key(format!("{}/{key}", annotations.api_group))
    })
}
