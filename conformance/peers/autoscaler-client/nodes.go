// Nodes that the autoscaler sends.

package main

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// realNode returns a Node as a kubelet registers it.
func realNode(name, providerID string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{v1.LabelHostname: name, v1.LabelArchStable: "amd64", v1.LabelOSStable: "linux"},
			Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "0"},
		},
		Spec: v1.NodeSpec{ProviderID: providerID},
	}
}

// fakeNode returns the Node that the autoscaler makes up for an instance without Node.
func fakeNode(id, reason string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: id, Annotations: map[string]string{"k8s.io/cluster-autoscaler/fake-node-reason": reason}},
		Spec:       v1.NodeSpec{ProviderID: id},
	}
}
