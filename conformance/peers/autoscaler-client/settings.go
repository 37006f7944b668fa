// Checks of the answers that a group makes about itself: template, settings and prices. The generations differ most in these messages.

package main

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
	var failures []error
	for _, price := range []func(time.Time) (float64, error){
		func(end time.Time) (float64, error) { return j.client.nodePrice(node, start, end) },
		func(end time.Time) (float64, error) { return j.client.podPrice(pod, start, end) },
	} {
		hour, err := price(start.Add(time.Hour))
		if notImplemented(err) {
			missing++
			continue
		}
		day, err2 := price(start.Add(24 * time.Hour))
		if err = errors.Join(err, err2); err == nil && (hour < 0 || day < hour || hour > 0 && day == hour) {
			err = fmt.Errorf("an hour costs %v, and a day costs %v", hour, day)
		}
		failures = append(failures, err)
	}
	if missing == 1 {
		failures = append(failures, errors.New("one of the two methods for prices is implemented, and the other is not"))
	}
	return errors.Join(failures...)
}
