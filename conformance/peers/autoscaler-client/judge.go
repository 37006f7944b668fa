// The judge runs checks against a server and prints the results.

package main

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"peers/autoscaler-client/protocol"
)

// judge runs the checks in their order. Each check may use what earlier checks have left: the group has two instances after `grow`.
type judge struct {
	client *client
	// Group without instances and without own settings. The checks grow it by two, and leave it empty.
	group string
	// Group with its own `unneeded`, and this duration; empty if the caller names none.
	tuned    string
	unneeded time.Duration
	// Number of looks within which instances start and vanish, and the pause between two looks.
	looks int
	pause time.Duration

	groups    []*protocol.NodeGroup
	wasEmpty  bool     // true if the group had no instances at the start
	instances []string // IDs of the two running instances of the group, in order
}

// check is one promise of a server.
type check struct {
	name, promise string
	holds         func(*judge) error
}

// errSkipped is the result of a check that lacks something that only the caller can name.
var errSkipped = errors.New("skipped: name a group with its own settings: --tuned")

func checks() []check {
	all := append([]check{}, readingChecks...)
	all = append(all, ownChecks...)
	all = append(all, growthChecks...)
	return append(all, lastChecks...)
}

// run prints one line per check, and returns the names of the checks that fail. At the end it deletes instances that a failed check has left.
func (j *judge) run(out io.Writer) []string {
	defer j.removeInstances()
	failed, passed := []string{}, 0
	for _, it := range checks() {
		err := guarded(it.holds, j)
		switch {
		case err == nil:
			passed++
			fmt.Fprintf(out, "ok   %s %s: %s\n", generation, it.name, it.promise)
		case errors.Is(err, errSkipped):
			fmt.Fprintf(out, "skip %s %s: %s: %v\n", generation, it.name, it.promise, err)
		default:
			failed = append(failed, it.name)
			fmt.Fprintf(out, "FAIL %s %s: %s: %s\n", generation, it.name, it.promise, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	fmt.Fprintf(out, "%s: %d passed, %d failed\n", generation, passed, len(failed))
	return failed
}

// guarded turns a panic into a failure. A panic in a check is a crash of the autoscaler, which uses answers in the same way.
func guarded(holds func(*judge) error, j *judge) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("this answer crashes an autoscaler of generation %s: %v", generation, reason)
		}
	}()
	return holds(j)
}

// until calls `holds` until it returns no error, at most `looks` times.
func (j *judge) until(holds func() error) error {
	err := holds()
	for n := 1; n < j.looks && err != nil; n++ {
		time.Sleep(j.pause)
		err = holds()
	}
	if err != nil {
		return fmt.Errorf("not within %v: %w", time.Duration(j.looks-1)*j.pause, err)
	}
	return nil
}

// own returns the group that the checks grow, as NodeGroups has listed it.
func (j *judge) own() (*protocol.NodeGroup, error) {
	for _, it := range j.groups {
		if it.Id == j.group {
			return it, nil
		}
	}
	return nil, fmt.Errorf("NodeGroups does not list the group %s", j.group)
}

// target fails if the size of the group is not this one.
func (j *judge) target(want int) error {
	size, err := j.client.targetSize(j.group)
	if err != nil {
		return fmt.Errorf("NodeGroupTargetSize: %w", err)
	}
	if size != want {
		return fmt.Errorf("the size is %d; expected %d", size, want)
	}
	return nil
}

// states returns the states of the instances of the group, by ID.
func (j *judge) states() (map[string]protocol.InstanceStatus_InstanceState, error) {
	list, err := j.client.instances(j.group)
	if err != nil {
		return nil, fmt.Errorf("NodeGroupNodes: %w", err)
	}
	states := map[string]protocol.InstanceStatus_InstanceState{}
	for _, it := range list {
		if it.GetId() == "" {
			return nil, errors.New("an instance has no ID")
		}
		if _, twice := states[it.GetId()]; twice {
			return nil, fmt.Errorf("instance %s is listed twice", it.GetId())
		}
		if code := it.GetStatus().GetErrorInfo().GetErrorCode(); code != "" {
			return nil, fmt.Errorf("instance %s has the error %s: %s", it.GetId(), code, it.GetStatus().GetErrorInfo().GetErrorMessage())
		}
		states[it.GetId()] = it.GetStatus().GetInstanceState()
	}
	return states, nil
}

// unchanged fails if the group has not exactly this size and these running instances.
func (j *judge) unchanged(ids ...string) error {
	if err := j.target(len(ids)); err != nil {
		return err
	}
	states, err := j.states()
	if err != nil {
		return err
	}
	running := []string{}
	for id, state := range states {
		switch state {
		case protocol.InstanceStatus_instanceRunning:
			running = append(running, id)
		case protocol.InstanceStatus_instanceDeleting:
		default:
			return fmt.Errorf("instance %s has the state %v", id, state)
		}
	}
	sort.Strings(running)
	sort.Strings(ids)
	if strings.Join(running, " ") != strings.Join(ids, " ") {
		return fmt.Errorf("the running instances are %v; expected %v", running, ids)
	}
	return nil
}

// removeInstances deletes the instances of a group that was empty, so that the next client finds it empty. It ignores errors, because a check
// has reported them.
func (j *judge) removeInstances() {
	if !j.wasEmpty {
		return
	}
	list, _ := j.client.instances(j.group)
	for _, it := range list {
		if it.GetStatus().GetInstanceState() != protocol.InstanceStatus_instanceDeleting {
			_ = j.client.deleteNodes(j.group, fakeNode(it.GetId(), "unregistered"))
		}
	}
}
