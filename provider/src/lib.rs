//! A vSphere cloud provider for Kubernetes: the cloud controllers over vCenter.

mod instances;
mod model;
mod mutant;
