//go:build tools

// Package tools names the commands of Kubernetes that are built from this module; nothing here is compiled.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
