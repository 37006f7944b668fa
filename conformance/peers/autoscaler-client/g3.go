//go:build !g1 && !g2

package main

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"

	"peers/autoscaler-client/protocol"
)

// Generation G3 sends and reads bytes and messages of Google, as Cluster Autoscaler 1.36 does.
const generation = "G3"

// Fields that this generation sends in the settings.
var optionFields = []int{1, 2, 6, 7, 8, 9, 10}

func nodePriceRequest(node *v1.Node, start, end time.Time) *protocol.PricingNodePriceRequest {
	return &protocol.PricingNodePriceRequest{Node: sent(node), StartTimestamp: timestamppb.New(start), EndTimestamp: timestamppb.New(end)}
}

func podPriceRequest(pod *v1.Pod, start, end time.Time) (*protocol.PricingPodPriceRequest, error) {
	bytes, err := pod.Marshal()
	if err != nil {
		return nil, err
	}
	return &protocol.PricingPodPriceRequest{PodBytes: bytes, StartTimestamp: timestamppb.New(start), EndTimestamp: timestamppb.New(end)}, nil
}

func nodeOf(answer *protocol.NodeGroupTemplateNodeInfoResponse) (*v1.Node, error) {
	if answer.GetNodeBytes() == nil {
		return nil, nil
	}
	node := &v1.Node{}
	return node, node.Unmarshal(answer.GetNodeBytes())
}

func optionsMessage(it options) *protocol.NodeGroupAutoscalingOptions {
	return &protocol.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold:    it.utilization,
		ScaleDownGpuUtilizationThreshold: it.gpuUtilization,
		ScaleDownUnneededDuration:        durationpb.New(it.unneeded),
		ScaleDownUnreadyDuration:         durationpb.New(it.unready),
		MaxNodeProvisionDuration:         durationpb.New(it.provision),
		ZeroOrMaxNodeScaling:             it.zeroOrMax,
		IgnoreDaemonSetsUtilization:      it.ignoreDaemonSets,
	}
}

// optionsOf reads an absent duration as zero, as the autoscaler does.
func optionsOf(message *protocol.NodeGroupAutoscalingOptions) options {
	return options{
		utilization:      message.GetScaleDownUtilizationThreshold(),
		gpuUtilization:   message.GetScaleDownGpuUtilizationThreshold(),
		unneeded:         message.GetScaleDownUnneededDuration().AsDuration(),
		unready:          message.GetScaleDownUnreadyDuration().AsDuration(),
		provision:        message.GetMaxNodeProvisionDuration().AsDuration(),
		zeroOrMax:        message.GetZeroOrMaxNodeScaling(),
		ignoreDaemonSets: message.GetIgnoreDaemonSetsUtilization(),
	}
}

// Checks that only this generation can make.
var ownChecks []check
