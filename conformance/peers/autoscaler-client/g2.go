//go:build g2

package main

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"peers/autoscaler-client/protocol"
)

// Generation G2 sends embedded messages and replacements, and prefers the replacements, as Cluster Autoscaler 1.34.3 does.
const generation = "G2"

// Fields that this generation sends in the settings.
var optionFields = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}

func nodePriceRequest(node *v1.Node, start, end time.Time) *protocol.PricingNodePriceRequest {
	from, to := metav1.NewTime(start), metav1.NewTime(end)
	return &protocol.PricingNodePriceRequest{
		Node: sent(node), StartTime: &from, EndTime: &to, StartTimestamp: timestamppb.New(start), EndTimestamp: timestamppb.New(end),
	}
}

func podPriceRequest(pod *v1.Pod, start, end time.Time) (*protocol.PricingPodPriceRequest, error) {
	bytes, err := pod.Marshal()
	if err != nil {
		return nil, err
	}
	from, to := metav1.NewTime(start), metav1.NewTime(end)
	return &protocol.PricingPodPriceRequest{
		Pod: pod, StartTime: &from, EndTime: &to,
		PodBytes: bytes, StartTimestamp: timestamppb.New(start), EndTimestamp: timestamppb.New(end),
	}, nil
}

func nodeOf(answer *protocol.NodeGroupTemplateNodeInfoResponse) (*v1.Node, error) {
	if answer.GetNodeBytes() == nil {
		return answer.GetNodeInfo(), nil
	}
	node := &v1.Node{}
	return node, node.Unmarshal(answer.GetNodeBytes())
}

func optionsMessage(it options) *protocol.NodeGroupAutoscalingOptions {
	return &protocol.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold:    it.utilization,
		ScaleDownGpuUtilizationThreshold: it.gpuUtilization,
		ScaleDownUnneededTime:            &metav1.Duration{Duration: it.unneeded},
		ScaleDownUnreadyTime:             &metav1.Duration{Duration: it.unready},
		MaxNodeProvisionTime:             &metav1.Duration{Duration: it.provision},
		ScaleDownUnneededDuration:        durationpb.New(it.unneeded),
		ScaleDownUnreadyDuration:         durationpb.New(it.unready),
		MaxNodeProvisionDuration:         durationpb.New(it.provision),
		ZeroOrMaxNodeScaling:             it.zeroOrMax,
		IgnoreDaemonSetsUtilization:      it.ignoreDaemonSets,
	}
}

// optionsOf prefers the replacement of each duration. Without a replacement it dereferences the old duration, and crashes if that is absent
// too.
func optionsOf(message *protocol.NodeGroupAutoscalingOptions) options {
	duration := func(replacement *durationpb.Duration, old *metav1.Duration) time.Duration {
		if replacement != nil {
			return replacement.AsDuration()
		}
		return old.Duration
	}
	return options{
		utilization:      message.GetScaleDownUtilizationThreshold(),
		gpuUtilization:   message.GetScaleDownGpuUtilizationThreshold(),
		unneeded:         duration(message.GetScaleDownUnneededDuration(), message.GetScaleDownUnneededTime()),
		unready:          duration(message.GetScaleDownUnreadyDuration(), message.GetScaleDownUnreadyTime()),
		provision:        duration(message.GetMaxNodeProvisionDuration(), message.GetMaxNodeProvisionTime()),
		zeroOrMax:        message.GetZeroOrMaxNodeScaling(),
		ignoreDaemonSets: message.GetIgnoreDaemonSetsUtilization(),
	}
}

// Checks that only this generation can make, because it knows all fields.
var ownChecks = []check{
	{"template-both", "the template has the same Node as embedded message and as bytes, and no other field", (*judge).bothTemplates},
	{"options-both", "the settings have the same old and new durations, and no other field", (*judge).bothOptions},
}

func (j *judge) bothTemplates() error {
	answer, err := ask(j.client, j.client.rpc.NodeGroupTemplateNodeInfo, &protocol.NodeGroupTemplateNodeInfoRequest{Id: j.group})
	if err != nil {
		return err
	}
	if answer.GetNodeInfo() == nil || len(answer.GetNodeBytes()) == 0 {
		return errors.New("one of the fields nodeInfo and nodeBytes is absent")
	}
	if unknown := answer.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		return fmt.Errorf("the answer has unknown fields: %x", []byte(unknown))
	}
	node := &v1.Node{}
	if err := node.Unmarshal(answer.GetNodeBytes()); err != nil {
		return fmt.Errorf("nodeBytes: %w", err)
	}
	if !equality.Semantic.DeepEqual(node, answer.GetNodeInfo()) {
		return fmt.Errorf("nodeInfo is %v, and nodeBytes is %v", answer.GetNodeInfo(), node)
	}
	return nil
}

func (j *judge) bothOptions() error {
	if j.tuned == "" {
		return errSkipped
	}
	request := &protocol.NodeGroupAutoscalingOptionsRequest{Id: j.tuned, Defaults: optionsMessage(oneDefaults)}
	answer, err := ask(j.client, j.client.rpc.NodeGroupGetOptions, request)
	if err != nil {
		return err
	}
	it := answer.GetNodeGroupAutoscalingOptions()
	if unknown := it.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		return fmt.Errorf("the settings have unknown fields: %x", []byte(unknown))
	}
	old := []*metav1.Duration{it.GetScaleDownUnneededTime(), it.GetScaleDownUnreadyTime(), it.GetMaxNodeProvisionTime()}
	replacements := []*durationpb.Duration{it.GetScaleDownUnneededDuration(), it.GetScaleDownUnreadyDuration(), it.GetMaxNodeProvisionDuration()}
	for n, name := range []string{"unneeded", "unready", "provision"} {
		if old[n] == nil || replacements[n] == nil || old[n].Duration != replacements[n].AsDuration() {
			return fmt.Errorf("%s: the old duration is %v, and the new one is %v", name, old[n], replacements[n])
		}
	}
	return nil
}
