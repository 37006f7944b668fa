// The server of the tests: template, settings and prices, as bytes with the fields of all generations.

package main

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"peers/autoscaler-client/protocol"
)

func (s *server) price(start, end int64) (float64, error) {
	switch {
	case s.has("prices cannot be reached"):
		return 0, status.Error(codes.Unavailable, "flaw")
	case s.has("no prices"):
		return 0, status.Error(codes.Unimplemented, "no prices")
	case s.has("flat prices"):
		return 1, nil
	}
	return float64(end-start) / 3600, nil
}

func (s *server) PricingNodePrice(_ context.Context, q *protocol.PricingNodePriceRequest) (*protocol.PricingNodePriceResponse, error) {
	price, err := s.price(nodePeriod(q))
	return &protocol.PricingNodePriceResponse{Price: price}, err
}

func (s *server) PricingPodPrice(_ context.Context, q *protocol.PricingPodPriceRequest) (*protocol.PricingPodPriceResponse, error) {
	if s.has("prices of Nodes only") {
		return nil, status.Error(codes.Unimplemented, "flaw")
	}
	price, err := s.price(podPeriod(q))
	return &protocol.PricingPodPriceResponse{Price: price}, err
}

func (s *server) templateNode() *v1.Node {
	resources := func(memory string) v1.ResourceList {
		return v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse(memory), v1.ResourcePods: resource.MustParse("110"),
		}
	}
	node := realNode("template", "")
	node.Status = v1.NodeStatus{Capacity: resources("4Gi"), Allocatable: resources("3Gi"), Conditions: []v1.NodeCondition{{
		Type: v1.NodeReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.Unix(1_767_225_600, 0),
	}}}
	switch s.flaw {
	case "template without pods":
		delete(node.Status.Allocatable, v1.ResourcePods)
	case "template offers more than it has":
		node.Status.Allocatable = resources("8Gi")
	case "template without architecture":
		delete(node.Labels, v1.LabelArchStable)
	case "template with provider ID":
		node.Spec.ProviderID = "example://1"
	case "template is not ready":
		node.Status.Conditions[0].Status = v1.ConditionFalse
	}
	return node
}

func (s *server) NodeGroupTemplateNodeInfo(_ context.Context, q *protocol.NodeGroupTemplateNodeInfoRequest) (*protocol.NodeGroupTemplateNodeInfoResponse, error) {
	if err := known(q.Id); err != nil {
		if s.has("unknown group has no template") {
			err = status.Error(codes.Unimplemented, "flaw")
		}
		return nil, err
	}
	if s.has("no template at zero") {
		return nil, status.Error(codes.Unimplemented, "flaw")
	}
	node := s.templateNode()
	old, err := node.Marshal()
	if err != nil {
		return nil, err
	}
	node.Labels["example/another"] = "label"
	another, err := node.Marshal()
	if err != nil {
		return nil, err
	}
	var fields []byte
	if !s.has("only the new template", "empty template") {
		fields = protowire.AppendBytes(protowire.AppendTag(fields, 1, protowire.BytesType), old)
	}
	switch {
	case s.has("only the old template", "empty template"):
	case s.has("two different templates"):
		fields = protowire.AppendBytes(protowire.AppendTag(fields, 2, protowire.BytesType), another)
	case s.has("broken bytes of the template"):
		fields = protowire.AppendBytes(protowire.AppendTag(fields, 2, protowire.BytesType), old[:len(old)-1])
	default:
		fields = protowire.AppendBytes(protowire.AppendTag(fields, 2, protowire.BytesType), old)
	}
	if s.has("field of the future in the template") {
		fields = protowire.AppendBytes(protowire.AppendTag(fields, 3, protowire.BytesType), old)
	}
	answer := &protocol.NodeGroupTemplateNodeInfoResponse{}
	answer.ProtoReflect().SetUnknown(fields)
	return answer, nil
}

func (s *server) NodeGroupGetOptions(_ context.Context, q *protocol.NodeGroupAutoscalingOptionsRequest) (*protocol.NodeGroupAutoscalingOptionsResponse, error) {
	if err := known(q.Id); err != nil {
		return nil, err
	}
	if s.has("refuses unknown fields") && len(q.Defaults.ProtoReflect().GetUnknown()) > 0 {
		return nil, status.Error(codes.InvalidArgument, "flaw")
	}
	answer := &protocol.NodeGroupAutoscalingOptionsResponse{}
	it := optionsOf(q.Defaults)
	if q.Id == plainGroup && !s.has("settings of a group without its own") {
		return answer, nil
	}
	it.unneeded = tunedUnneeded
	switch s.flaw {
	case "ignores the defaults":
		it.provision, it.unready = time.Minute, time.Minute
	case "copies the wrong threshold":
		it.utilization = math.Sqrt(it.gpuUtilization) * it.utilization
	case "forgets its own setting":
		it.unneeded = optionsOf(q.Defaults).unneeded
	}
	content := s.written(it)
	answer.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), content))
	return answer, nil
}

// written serializes settings with the fields of all generations.
func (s *server) written(it options) []byte {
	var fields []byte
	for n, threshold := range []float64{it.utilization, it.gpuUtilization} {
		fields = protowire.AppendFixed64(protowire.AppendTag(fields, protowire.Number(1+n), protowire.Fixed64Type), math.Float64bits(threshold))
	}
	for n, duration := range []time.Duration{it.unneeded, it.unready, it.provision} {
		old := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(duration))
		replacement := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(duration/time.Second))
		replacement = protowire.AppendVarint(protowire.AppendTag(replacement, 2, protowire.VarintType), uint64(duration%time.Second))
		if s.has("nanoseconds as seconds") {
			replacement = protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(duration)/1000)
		}
		if !s.has("only the new durations", "no durations") {
			fields = protowire.AppendBytes(protowire.AppendTag(fields, protowire.Number(3+n), protowire.BytesType), old)
		}
		if !s.has("only the old durations", "no durations") {
			fields = protowire.AppendBytes(protowire.AppendTag(fields, protowire.Number(8+n), protowire.BytesType), replacement)
		}
	}
	if s.has("field of the future in the settings") {
		fields = protowire.AppendVarint(protowire.AppendTag(fields, 11, protowire.VarintType), 1)
	}
	return fields
}
