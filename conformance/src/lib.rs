//! What a vSphere cloud provider promises, and whether it holds.

mod capture;
pub mod judge;
pub mod lab;
pub mod scenario;
