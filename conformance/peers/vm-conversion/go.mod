module peers/vm-conversion

go 1.26.0

require (
	github.com/vmware-tanzu/vm-operator/api v0.0.0
	k8s.io/apimachinery v0.31.0
	sigs.k8s.io/controller-runtime v0.19.0
)
