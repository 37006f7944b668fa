package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"peers/autoscaler-client/protocol"
)

// Checks that change nothing.
var readingChecks = []check{
	{"groups", "NodeGroups lists the group with valid bounds before the first Refresh", (*judge).listsGroups},
	{"refresh", "Refresh succeeds and leaves the groups as they are", (*judge).refreshes},
	{"empty", "the group has no instances at the start", func(j *judge) error { return j.unchanged() }},
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
	seen, hasGroup := map[string]bool{}, false
	for _, it := range groups {
		if it.Id == "" || seen[it.Id] {
			return fmt.Errorf("the ID %q is empty, or two groups have it", it.Id)
		}
		seen[it.Id] = true
		if it.MinSize < 0 || it.MaxSize < it.MinSize || it.MaxSize < 1 {
			return fmt.Errorf("group %s has the bounds %d and %d", it.Id, it.MinSize, it.MaxSize)
		}
		hasGroup = hasGroup || it.Id == j.group && it.MinSize == 0 && it.MaxSize >= 2
	}
	if !hasGroup {
		return fmt.Errorf("no group %s with a minimum of 0 and a maximum of at least 2 among %v", j.group, groups)
	}
	return nil
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

// hasTemplates requires a template of the group, which grows from zero, and lets other groups answer that they have none.
func (j *judge) hasTemplates() error {
	if len(j.groups) == 0 {
		return errNoGroups
	}
	for _, it := range j.groups {
		node, err := j.client.template(it.Id)
		if notImplemented(err) && it.Id != j.group {
			continue
		}
		if err != nil {
			return fmt.Errorf("group %s: %w", it.Id, err)
		}
		if err := usable(node); err != nil {
			return fmt.Errorf("group %s: %w", it.Id, err)
		}
	}
	return nil
}

// usable reads a template as the simulation of the autoscaler does, without a look at whether it is nil.
func usable(node *v1.Node) error {
	capacity, allocatable := node.Status.Capacity, node.Status.Allocatable
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods} {
		has, offers := capacity[name], allocatable[name]
		if offers.Sign() <= 0 || offers.Cmp(has) > 0 {
			return fmt.Errorf("the Node has %s %s, and offers %s", name, has.String(), offers.String())
		}
	}
	for _, label := range []string{v1.LabelArchStable, v1.LabelOSStable} {
		if node.Labels[label] == "" {
			return fmt.Errorf("the Node has no label %s: %v", label, node.Labels)
		}
	}
	if node.Spec.ProviderID != "" {
		return fmt.Errorf("the Node has the provider ID %s", node.Spec.ProviderID)
	}
	for _, it := range node.Status.Conditions {
		if it.Type == v1.NodeReady && it.Status == v1.ConditionTrue && !it.LastTransitionTime.IsZero() {
			return nil
		}
	}
	return fmt.Errorf("the Node is not ready: %v", node.Status.Conditions)
}

// Defaults of two autoscalers. They differ in each field that all generations have.
var (
	oneDefaults     = options{utilization: 0.5, gpuUtilization: 0.625, unneeded: 10 * time.Minute, unready: 20 * time.Minute, provision: 15 * time.Minute}
	anotherDefaults = options{utilization: 0.25, gpuUtilization: 0.375, unneeded: 90 * time.Second, unready: 1500 * time.Millisecond, provision: time.Hour}
)

func (j *judge) optionsFollow() error {
	if len(j.groups) == 0 {
		return errNoGroups
	}
	for _, it := range j.groups {
		one, err := j.client.options(it.Id, oneDefaults)
		if err != nil {
			return fmt.Errorf("group %s: %w", it.Id, err)
		}
		another, err := j.client.options(it.Id, anotherDefaults)
		if err != nil {
			return fmt.Errorf("group %s: %w", it.Id, err)
		}
		if it.Id == j.group && (one != oneDefaults || another != anotherDefaults) {
			return fmt.Errorf("group %s has no own settings; it answers %v to %v, and %v to %v", it.Id, one, oneDefaults, another, anotherDefaults)
		}
		if err := consistent(one, another); err != nil {
			return fmt.Errorf("group %s: %w", it.Id, err)
		}
	}
	return nil
}

// consistent fails if a setting is neither that of the defaults nor the same for both.
func consistent(one, another options) error {
	if one.unneeded <= 0 || one.unready <= 0 || one.provision <= 0 {
		return fmt.Errorf("a duration is not positive, so that the autoscaler does not wait: %v", one)
	}
	follows := func(name string, one, another, default1, default2 any) error {
		if one == another || one == default1 && another == default2 {
			return nil
		}
		return fmt.Errorf("%s is %v for the default %v, and %v for the default %v", name, one, default1, another, default2)
	}
	a, b := oneDefaults, anotherDefaults
	return errors.Join(
		follows("scaleDownUtilizationThreshold", one.utilization, another.utilization, a.utilization, b.utilization),
		follows("scaleDownGpuUtilizationThreshold", one.gpuUtilization, another.gpuUtilization, a.gpuUtilization, b.gpuUtilization),
		follows("scaleDownUnneededTime", one.unneeded, another.unneeded, a.unneeded, b.unneeded),
		follows("scaleDownUnreadyTime", one.unready, another.unready, a.unready, b.unready),
		follows("MaxNodeProvisionTime", one.provision, another.provision, a.provision, b.provision),
	)
}

func (j *judge) overrides() error {
	if j.tuned == "" {
		return errSkipped
	}
	for _, defaults := range []options{oneDefaults, anotherDefaults} {
		got, err := j.client.options(j.tuned, defaults)
		if err != nil {
			return err
		}
		want := defaults
		want.unneeded = j.unneeded
		if got != want {
			return fmt.Errorf("group %s answers %v; expected %v", j.tuned, got, want)
		}
	}
	return nil
}

func (j *judge) pricesGrow() error {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	node := realNode("priced", "kind://priced")
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "priced"}, Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "it", Image: "none", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")}},
	}}}}
	missing := 0
	for _, price := range []func(time.Time) (float64, error){
		func(end time.Time) (float64, error) { return j.client.nodePrice(node, start, end) },
		func(end time.Time) (float64, error) { return j.client.podPrice(pod, start, end) },
	} {
		hour, err := price(start.Add(time.Hour))
		if notImplemented(err) {
			missing++
			continue
		}
		if err != nil {
			return err
		}
		day, err := price(start.Add(24 * time.Hour))
		if err != nil {
			return err
		}
		if hour < 0 || day < hour || hour > 0 && day == hour {
			return fmt.Errorf("an hour costs %v, and a day costs %v", hour, day)
		}
	}
	if missing == 1 {
		return errors.New("one of the two methods for prices is implemented, and the other is not")
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
