// Checks that change nothing on the server.

package main

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"

	"peers/autoscaler-client/protocol"
)

var readingChecks = []check{
	{"groups", "NodeGroups lists the group with valid bounds before the first Refresh", (*judge).listsGroups},
	{"refresh", "Refresh succeeds and leaves the groups as they are", (*judge).refreshes},
	{"empty", "the group has no instances at the start", (*judge).startsEmpty},
	{"foreign", "a Node of another platform, and one without provider ID, belong to no group", (*judge).ignoresForeign},
	{"gpu", "the label and the types of GPUs are answered", (*judge).answersGPU},
	{"template", "the Node of a new instance has resources, labels and no provider ID", (*judge).hasTemplates},
	{"options", "settings follow the defaults of the autoscaler, or differ from them always", (*judge).optionsFollow},
	{"override", "the group with its own settings has them", (*judge).overrides},
	{"prices", "prices grow with time, or both methods are not implemented", (*judge).pricesGrow},
	{"unknown-group", "each call about an unknown group fails, and not as not implemented", (*judge).refusesUnknownGroup},
	{"unknown-field", "a field of a newer generation changes no answer", (*judge).ignoresUnknownFields},
}

var errNoGroups = errors.New("no groups to look at")

func (j *judge) listsGroups() error {
	groups, err := j.client.groups()
	if err != nil {
		return err
	}
	j.groups = groups
	seen := map[string]bool{}
	for _, it := range groups {
		if it.Id == "" || seen[it.Id] {
			return fmt.Errorf("the ID %q is empty, or two groups have it", it.Id)
		}
		seen[it.Id] = true
		if it.MinSize < 0 || it.MaxSize < it.MinSize || it.MaxSize < 1 {
			return fmt.Errorf("group %s has the bounds %d and %d", it.Id, it.MinSize, it.MaxSize)
		}
	}
	own, err := j.own()
	if err == nil && (own.MinSize != 0 || own.MaxSize < 2) {
		err = fmt.Errorf("group %s has the bounds %d and %d; the checks need 0 and at least 2", own.Id, own.MinSize, own.MaxSize)
	}
	return err
}

func (j *judge) startsEmpty() error {
	err := j.unchanged()
	j.wasEmpty = err == nil
	return err
}

func (j *judge) refreshes() error {
	if err := j.client.refresh(); err != nil {
		return err
	}
	groups, err := j.client.groups()
	if err != nil {
		return err
	}
	before, after := &protocol.NodeGroupsResponse{NodeGroups: j.groups}, &protocol.NodeGroupsResponse{NodeGroups: groups}
	if !proto.Equal(before, after) {
		return fmt.Errorf("the groups were %v and are %v", j.groups, groups)
	}
	return nil
}

func (j *judge) ignoresForeign() error {
	for _, node := range []*v1.Node{
		realNode("foreign-1", "kind://foreign-1"), realNode("foreign-2", ""), realNode("foreign-3", "no-url"), fakeNode("k3s://foreign-4", "unregistered"),
	} {
		group, err := j.client.groupFor(node)
		if err != nil {
			return fmt.Errorf("Node %s with provider ID %q: %w", node.Name, node.Spec.ProviderID, err)
		}
		if group != nil {
			return fmt.Errorf("Node %s with provider ID %q belongs to group %s", node.Name, node.Spec.ProviderID, group.Id)
		}
	}
	return nil
}

func (j *judge) answersGPU() error {
	label, err := j.client.gpuLabel()
	if err != nil {
		return fmt.Errorf("GPULabel: %w", err)
	}
	if strings.ContainsAny(label, " \n") {
		return fmt.Errorf("the label %q is not valid", label)
	}
	if _, err := j.client.gpuTypes(); err != nil {
		return fmt.Errorf("GetAvailableGPUTypes: %w", err)
	}
	return nil
}

func (j *judge) refusesUnknownGroup() error {
	const unknown = "unknown-group"
	var failures []error
	for method, call := range map[string]func() error{
		"NodeGroupTargetSize":         func() error { _, err := j.client.targetSize(unknown); return err },
		"NodeGroupNodes":              func() error { _, err := j.client.instances(unknown); return err },
		"NodeGroupIncreaseSize":       func() error { return j.client.increase(unknown, 1) },
		"NodeGroupDecreaseTargetSize": func() error { return j.client.decrease(unknown, -1) },
		"NodeGroupDeleteNodes":        func() error { return j.client.deleteNodes(unknown, realNode("any", "kind://any")) },
		"NodeGroupTemplateNodeInfo":   func() error { _, err := j.client.template(unknown); return err },
		"NodeGroupGetOptions": func() error {
			request := &protocol.NodeGroupAutoscalingOptionsRequest{Id: unknown, Defaults: optionsMessage(oneDefaults)}
			_, err := ask(j.client, j.client.rpc.NodeGroupGetOptions, request)
			return err
		},
	} {
		err := call()
		if err == nil || notImplemented(err) || !isAnswer(err) {
			failures = append(failures, fmt.Errorf("%s answers %v", method, err))
		}
	}
	return errors.Join(failures...)
}

// ignoresUnknownFields sends fields with the numbers that upstream may use next, and one far away.
func (j *judge) ignoresUnknownFields() error {
	request := &protocol.NodeGroupTargetSizeRequest{Id: j.group}
	addUnknown(request)
	size, err := ask(j.client, j.client.rpc.NodeGroupTargetSize, request)
	if err != nil || size.GetTargetSize() != 0 {
		return fmt.Errorf("NodeGroupTargetSize answers %v, %v", size, err)
	}
	node := sent(realNode("foreign-1", "kind://foreign-1"))
	addUnknown(node)
	group, err := ask(j.client, j.client.rpc.NodeGroupForNode, &protocol.NodeGroupForNodeRequest{Node: node})
	if err != nil || group.GetNodeGroup().GetId() != "" {
		return fmt.Errorf("NodeGroupForNode answers %v, %v", group, err)
	}
	for _, id := range []string{j.group, j.tuned} {
		if id == "" {
			continue
		}
		want, err := j.client.options(id, oneDefaults)
		if err != nil {
			return fmt.Errorf("NodeGroupGetOptions: %w", err)
		}
		message := optionsMessage(oneDefaults)
		addUnknown(message)
		if got, err := j.client.sendOptions(id, message, oneDefaults); err != nil || got != want {
			return fmt.Errorf("NodeGroupGetOptions of %s answers %v, %v; expected %v", id, got, err, want)
		}
	}
	return nil
}

func addUnknown(message proto.Message) {
	fields := protowire.AppendVarint(protowire.AppendTag(nil, 11, protowire.VarintType), 1)
	fields = protowire.AppendBytes(protowire.AppendTag(fields, 12, protowire.BytesType), []byte{8, 60})
	fields = protowire.AppendFixed64(protowire.AppendTag(fields, 1000, protowire.Fixed64Type), 7)
	message.ProtoReflect().SetUnknown(fields)
}
