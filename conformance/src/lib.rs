//! What a vSphere cloud provider promises, and whether it holds.

mod capture;
pub mod checks;
pub mod judge;
pub mod lab;
pub mod scenario;
pub mod verdict;
