//! Names of annotations and labels, and the API groups of the kinds.

/// API group of Cluster API.
pub(crate) const CAPI: &str = "cluster.x-k8s.io";
/// API group of the templates whose machines are VirtualMachine objects.
pub(crate) const SUPERVISOR: &str = "vmware.infrastructure.cluster.x-k8s.io";
/// API group of the templates whose machines Cluster API clones in vCenter.
pub(crate) const GOVMOMI: &str = "infrastructure.cluster.x-k8s.io";
/// API group of VM Operator.
pub(crate) const VM_OPERATOR: &str = "vmoperator.vmware.com";
/// Kind of the templates in both groups.
pub(crate) const TEMPLATE: &str = "VSphereMachineTemplate";

/// Annotation of an object that controllers leave alone.
pub(crate) const PAUSED: &str = "cluster.x-k8s.io/paused";
/// Label that selects the objects of one instance of a controller.
pub(crate) const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";
/// Annotation with the largest size of a group; without it the autoscaler ignores the group.
pub(crate) const MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
/// Annotation with the capacity that this provider has written: a JSON object of keys without
/// prefix and their values.
pub(crate) const MANAGED: &str = "vsphere.cloud-provider/managed-capacity";

/// Prefix of the annotations from which the autoscaler reads the capacity of a group.
pub(crate) const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io/";
pub(crate) const CPU: &str = "cpu";
pub(crate) const MEMORY: &str = "memory";
pub(crate) const EPHEMERAL_DISK: &str = "ephemeral-disk";
pub(crate) const GPU_COUNT: &str = "gpu-count";
pub(crate) const GPU_TYPE: &str = "gpu-type";
pub(crate) const MAX_PODS: &str = "maxPods";
pub(crate) const LABELS: &str = "labels";
pub(crate) const TAINTS: &str = "taints";
pub(crate) const DRA_DRIVER: &str = "dra-driver";
pub(crate) const CSI_DRIVER: &str = "csi-driver";

/// Name of the resource that [`EPHEMERAL_DISK`] sets.
pub(crate) const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
pub(crate) const ARCH_LABEL: &str = "kubernetes.io/arch";
pub(crate) const OS_LABEL: &str = "kubernetes.io/os";
pub(crate) const LINUX: &str = "linux";
pub(crate) const WINDOWS: &str = "windows";
pub(crate) const AMD64: &str = "amd64";
