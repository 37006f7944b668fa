//go:build g1

package main

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"peers/autoscaler-client/protocol"
)

// Generation G1 sends and reads the embedded messages of Kubernetes, as Cluster Autoscaler 1.31 does.
const generation = "G1"

// Fields that this generation sends in the settings.
var optionFields = []int{1, 2, 3, 4, 5}

func nodePriceRequest(node *v1.Node, start, end time.Time) *protocol.PricingNodePriceRequest {
	from, to := metav1.NewTime(start), metav1.NewTime(end)
	return &protocol.PricingNodePriceRequest{Node: sent(node), StartTime: &from, EndTime: &to}
}

func podPriceRequest(pod *v1.Pod, start, end time.Time) (*protocol.PricingPodPriceRequest, error) {
	from, to := metav1.NewTime(start), metav1.NewTime(end)
	return &protocol.PricingPodPriceRequest{Pod: pod, StartTime: &from, EndTime: &to}, nil
}

func nodeOf(answer *protocol.NodeGroupTemplateNodeInfoResponse) (*v1.Node, error) {
	return answer.GetNodeInfo(), nil
}

func optionsMessage(it options) *protocol.NodeGroupAutoscalingOptions {
	return &protocol.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold:    it.utilization,
		ScaleDownGpuUtilizationThreshold: it.gpuUtilization,
		ScaleDownUnneededTime:            &metav1.Duration{Duration: it.unneeded},
		ScaleDownUnreadyTime:             &metav1.Duration{Duration: it.unready},
		MaxNodeProvisionTime:             &metav1.Duration{Duration: it.provision},
	}
}

// optionsOf dereferences each duration, as the autoscaler does. It crashes if one is absent.
func optionsOf(message *protocol.NodeGroupAutoscalingOptions) options {
	return options{
		utilization:    message.GetScaleDownUtilizationThreshold(),
		gpuUtilization: message.GetScaleDownGpuUtilizationThreshold(),
		unneeded:       message.GetScaleDownUnneededTime().Duration,
		unready:        message.GetScaleDownUnreadyTime().Duration,
		provision:      message.GetMaxNodeProvisionTime().Duration,
	}
}

// Checks that only this generation can make.
var ownChecks []check
