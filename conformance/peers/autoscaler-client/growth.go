// Checks that change the server: a group grows from zero to two instances and back.

package main

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"

	"peers/autoscaler-client/protocol"
)

// Checks that make and delete instances. Each builds on the one before it.
var growthChecks = []check{
	{"maximum", "an increase above the maximum fails and changes nothing", (*judge).refusesAboveMaximum},
	{"grow", "after an increase by 2 the size is 2 at once", (*judge).grows},
	{"run", "two instances with stable IDs run", (*judge).instancesRun},
	{"member", "a Node of an instance, and the autoscaler's stand-in for it, belong to the group", (*judge).belongs},
	{"decrease", "a decrease fails while all instances exist, and changes nothing", (*judge).refusesDecrease},
	{"delete-foreign", "a deletion of a Node of another platform fails and changes nothing", (*judge).refusesForeign},
	{"delete", "a deletion takes the named instance and lowers the size to 1", (*judge).deletesOne},
	{"delete-again", "a repeated deletion succeeds and changes nothing", (*judge).deletesAgain},
	{"delete-fake", "a deletion by the autoscaler's stand-in empties the group", (*judge).deletesLast},
	{"gone", "deleted instances leave the list", (*judge).listEmpties},
}

// Checks at the end of the autoscaler's life.
var lastChecks = []check{
	{"cleanup", "Cleanup succeeds, and the server still answers", (*judge).cleansUp},
	{"methods", "the server has answered all 15 methods", (*judge).calledAll},
}

var errNoInstances = errors.New("the group has no two running instances to look at")

func (j *judge) refusesAboveMaximum() error {
	group, err := j.own()
	if err != nil {
		return err
	}
	if err := j.client.increase(j.group, int(group.MaxSize)+1); err == nil {
		return fmt.Errorf("an increase by %d succeeds, and the maximum is %d", group.MaxSize+1, group.MaxSize)
	}
	return j.target(0)
}

func (j *judge) grows() error {
	if err := j.client.increase(j.group, 2); err != nil {
		return err
	}
	return j.target(2)
}

func (j *judge) instancesRun() error {
	var ids []string
	err := j.until(func() error {
		states, err := j.states()
		if err != nil {
			return err
		}
		if len(states) != 2 {
			return fmt.Errorf("the group lists %d instances", len(states))
		}
		if ids == nil {
			for id := range states {
				ids = append(ids, id)
			}
			sort.Strings(ids)
		}
		for id, state := range states {
			if id != ids[0] && id != ids[1] {
				return fmt.Errorf("the instances were %v, and now one is %s", ids, id)
			}
			if state != protocol.InstanceStatus_instanceRunning {
				return fmt.Errorf("instance %s has the state %v", id, state)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	j.instances = ids
	return j.unchanged(ids...)
}

func (j *judge) belongs() error {
	group, err := j.own()
	if err != nil {
		return err
	}
	if len(j.instances) == 0 {
		return errNoInstances
	}
	for n, id := range j.instances {
		for _, node := range []*v1.Node{realNode(fmt.Sprintf("node-%d", n), id), fakeNode(id, "unregistered")} {
			got, err := j.client.groupFor(node)
			if err != nil {
				return fmt.Errorf("Node %s: %w", node.Name, err)
			}
			if got.GetId() != group.Id || got.GetMinSize() != group.MinSize || got.GetMaxSize() != group.MaxSize {
				return fmt.Errorf("Node %s belongs to %v; expected %v", node.Name, got, group)
			}
		}
	}
	return nil
}

func (j *judge) refusesDecrease() error {
	if len(j.instances) == 0 {
		return errNoInstances
	}
	if err := j.client.decrease(j.group, -1); err == nil {
		return errors.New("a decrease by 1 succeeds, and both instances run")
	}
	return j.unchanged(j.instances...)
}

func (j *judge) refusesForeign() error {
	if len(j.instances) == 0 {
		return errNoInstances
	}
	if err := j.client.deleteNodes(j.group, realNode("node-0", j.instances[0]), realNode("foreign-1", "kind://foreign-1")); err == nil {
		return errors.New("a deletion that names a Node of another platform succeeds")
	}
	return j.unchanged(j.instances...)
}

func (j *judge) deletesOne() error {
	if len(j.instances) == 0 {
		return errNoInstances
	}
	if err := j.client.deleteNodes(j.group, realNode("node-0", j.instances[0])); err != nil {
		return err
	}
	return j.unchanged(j.instances[1])
}

func (j *judge) deletesAgain() error {
	if len(j.instances) == 0 {
		return errNoInstances
	}
	if err := j.client.deleteNodes(j.group, realNode("node-0", j.instances[0])); err != nil {
		return err
	}
	return j.unchanged(j.instances[1])
}

func (j *judge) deletesLast() error {
	if len(j.instances) == 0 {
		return errNoInstances
	}
	if err := j.client.deleteNodes(j.group, fakeNode(j.instances[1], "unregistered")); err != nil {
		return err
	}
	return j.unchanged()
}

func (j *judge) listEmpties() error {
	return j.until(func() error {
		states, err := j.states()
		if err == nil && len(states) > 0 {
			err = fmt.Errorf("the group lists %v", states)
		}
		return err
	})
}

func (j *judge) cleansUp() error {
	if err := j.client.cleanup(); err != nil {
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
	return j.target(0)
}

func (j *judge) calledAll() error {
	missing := []string{}
	for _, it := range protocol.CloudProvider_ServiceDesc.Methods {
		if j.client.answered["/"+protocol.CloudProvider_ServiceDesc.ServiceName+"/"+it.MethodName] == 0 {
			missing = append(missing, it.MethodName)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no answer of %s", strings.Join(missing, ", "))
	}
	return nil
}
