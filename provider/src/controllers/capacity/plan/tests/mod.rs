//! Tests of the decisions, by table. The numbers CAPZ-… are those of section 10 of `SPECIFICATION.md`.

mod annotations;
mod status;
