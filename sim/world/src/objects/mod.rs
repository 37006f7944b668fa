//! A Kubernetes object store: revisions, conflicts, a watch log, selectors and patches.
