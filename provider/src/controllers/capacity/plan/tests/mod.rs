//! Tests of the decisions, by table. The numbers CAPZ-… are those of `SPECIFICATION.md`.

mod annotations;
mod status;
