//! Changes of the sizes of groups.

mod error;
mod lower;
mod marks;
mod missing;
mod record;
mod scale;
mod sweep;

pub(crate) use self::{error::ChangeError, lower::Lowering, sweep::sweep};
