// The server of the tests: groups and instances.

package main

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"peers/autoscaler-client/protocol"
)

// server is a server in memory that keeps every promise, and with a flaw breaks one. It writes the fields of all generations, so that it
// answers each client in the same bytes. Fields that the client's generation does not have are unknown fields of its messages.
type server struct {
	protocol.UnimplementedCloudProviderServer
	flaw      string
	cleaned   bool
	size      int
	hidden    int // instances of an increase that the size does not show yet
	n         int
	instances []*instance
}

type instance struct {
	id    string
	looks int // listings since its creation
	state protocol.InstanceStatus_InstanceState
}

const (
	plainGroup, tunedGroup = "plain", "tuned"
	tunedUnneeded          = 5 * time.Minute
)

func (s *server) has(flaws ...string) bool {
	for _, it := range flaws {
		if s.flaw == it {
			return true
		}
	}
	return false
}

func known(id string) error {
	if id == plainGroup || id == tunedGroup {
		return nil
	}
	return status.Errorf(codes.NotFound, "group %q does not exist", id)
}

func (s *server) NodeGroups(context.Context, *protocol.NodeGroupsRequest) (*protocol.NodeGroupsResponse, error) {
	groups := []*protocol.NodeGroup{{Id: plainGroup, MaxSize: 4}, {Id: tunedGroup, MaxSize: 2}}
	if s.has("negative minimum") {
		groups[1].MinSize = -1
	}
	if s.has("lists a group twice") {
		groups = append(groups, groups[1])
	}
	if s.has("lists no groups") || s.cleaned && s.has("Cleanup forgets a group") {
		groups = nil
	}
	return &protocol.NodeGroupsResponse{NodeGroups: groups}, nil
}

func (s *server) Refresh(context.Context, *protocol.RefreshRequest) (*protocol.RefreshResponse, error) {
	if s.has("Refresh fails") {
		return nil, status.Error(codes.Internal, "flaw")
	}
	return &protocol.RefreshResponse{}, nil
}

func (s *server) Cleanup(context.Context, *protocol.CleanupRequest) (*protocol.CleanupResponse, error) {
	s.cleaned = true
	return &protocol.CleanupResponse{}, nil
}

func (s *server) GPULabel(context.Context, *protocol.GPULabelRequest) (*protocol.GPULabelResponse, error) {
	return &protocol.GPULabelResponse{Label: "example/gpu"}, nil
}

func (s *server) GetAvailableGPUTypes(context.Context, *protocol.GetAvailableGPUTypesRequest) (*protocol.GetAvailableGPUTypesResponse, error) {
	if s.has("GPU types are not implemented") {
		return nil, status.Error(codes.Unimplemented, "flaw")
	}
	return &protocol.GetAvailableGPUTypesResponse{}, nil
}

func (s *server) NodeGroupForNode(_ context.Context, q *protocol.NodeGroupForNodeRequest) (*protocol.NodeGroupForNodeResponse, error) {
	if s.has("refuses unknown fields") && len(q.Node.ProtoReflect().GetUnknown()) > 0 {
		return nil, status.Error(codes.InvalidArgument, "flaw")
	}
	found := s.find(q.Node.ProviderID)
	if found == nil && s.has("foreign Node is an error") {
		return nil, status.Error(codes.NotFound, "flaw")
	}
	if found == nil && s.has("foreign Node has a group") {
		return &protocol.NodeGroupForNodeResponse{NodeGroup: &protocol.NodeGroup{Id: plainGroup}}, nil
	}
	if found == nil || s.has("loses fake Nodes") && len(q.Node.Annotations) > 0 && q.Node.Name == q.Node.ProviderID {
		return &protocol.NodeGroupForNodeResponse{}, nil
	}
	group := &protocol.NodeGroup{Id: plainGroup, MaxSize: 4}
	if s.has("other bounds for a Node") {
		group.MaxSize = 5
	}
	return &protocol.NodeGroupForNodeResponse{NodeGroup: group}, nil
}

func (s *server) find(id string) *instance {
	for _, it := range s.instances {
		if it.id == id {
			return it
		}
	}
	return nil
}

func (s *server) NodeGroupTargetSize(_ context.Context, q *protocol.NodeGroupTargetSizeRequest) (*protocol.NodeGroupTargetSizeResponse, error) {
	if err := known(q.Id); err != nil && !s.has("unknown group has a size") {
		return nil, err
	}
	if s.has("refuses unknown fields") && len(q.ProtoReflect().GetUnknown()) > 0 {
		return nil, status.Error(codes.InvalidArgument, "flaw")
	}
	size := s.size - s.hidden
	if s.has("starts with an instance") && s.n == 0 {
		size = 1
	}
	return &protocol.NodeGroupTargetSizeResponse{TargetSize: int32(size)}, nil
}

func (s *server) NodeGroupIncreaseSize(_ context.Context, q *protocol.NodeGroupIncreaseSizeRequest) (*protocol.NodeGroupIncreaseSizeResponse, error) {
	if err := known(q.Id); err != nil {
		return nil, err
	}
	if s.size+int(q.Delta) > 4 {
		if s.has("accepts an increase above the maximum") {
			return &protocol.NodeGroupIncreaseSizeResponse{}, nil
		}
		return nil, status.Error(codes.FailedPrecondition, "above the maximum")
	}
	if s.has("raises the size late") {
		s.hidden = int(q.Delta)
	}
	for range make([]struct{}, q.Delta) {
		s.n++
		s.size++
		s.instances = append(s.instances, &instance{id: "example://" + string(rune('a'+s.n)), state: protocol.InstanceStatus_instanceCreating})
	}
	return &protocol.NodeGroupIncreaseSizeResponse{}, nil
}

func (s *server) NodeGroupDecreaseTargetSize(_ context.Context, q *protocol.NodeGroupDecreaseTargetSizeRequest) (*protocol.NodeGroupDecreaseTargetSizeResponse, error) {
	if err := known(q.Id); err != nil {
		return nil, err
	}
	if s.has("accepts a decrease of existing instances") {
		return &protocol.NodeGroupDecreaseTargetSizeResponse{}, nil
	}
	return nil, status.Error(codes.FailedPrecondition, "the instances exist")
}

func (s *server) NodeGroupDeleteNodes(_ context.Context, q *protocol.NodeGroupDeleteNodesRequest) (*protocol.NodeGroupDeleteNodesResponse, error) {
	if err := known(q.Id); err != nil {
		return nil, err
	}
	chosen := []*instance{}
	for _, node := range q.Nodes {
		found := s.find(node.ProviderID)
		if found == nil && s.has("ignores foreign Nodes in a deletion") {
			return &protocol.NodeGroupDeleteNodesResponse{}, nil
		}
		if found == nil {
			return nil, status.Errorf(codes.NotFound, "%s is not an instance", node.ProviderID)
		}
		if s.has("refuses fake Nodes") && len(node.Labels) == 0 {
			return nil, status.Error(codes.InvalidArgument, "flaw")
		}
		if s.has("deletes another instance") {
			found = s.instances[0]
			if found.id == node.ProviderID {
				found = s.instances[1]
			}
		}
		chosen = append(chosen, found)
	}
	for _, it := range chosen {
		if it.state == protocol.InstanceStatus_instanceDeleting {
			if s.has("fails a repeated deletion") {
				return nil, status.Error(codes.NotFound, "flaw")
			}
			if !s.has("counts a repeated deletion") {
				continue
			}
		}
		it.state, it.looks = protocol.InstanceStatus_instanceDeleting, 0
		if !s.has("deletion keeps the size") {
			s.size--
		}
	}
	return &protocol.NodeGroupDeleteNodesResponse{}, nil
}

// NodeGroupNodes lists a new instance as creating twice, and a deleted one twice.
func (s *server) NodeGroupNodes(_ context.Context, q *protocol.NodeGroupNodesRequest) (*protocol.NodeGroupNodesResponse, error) {
	if err := known(q.Id); err != nil {
		return nil, err
	}
	s.hidden = 0
	answer := &protocol.NodeGroupNodesResponse{}
	for _, it := range s.instances {
		it.looks++
		if it.looks > 2 && it.state == protocol.InstanceStatus_instanceCreating && !s.has("never runs") {
			it.state = protocol.InstanceStatus_instanceRunning
			if s.has("changes IDs") {
				it.id += "-running"
			}
		}
		if it.looks > 2 && it.state == protocol.InstanceStatus_instanceDeleting && !s.has("keeps deleted instances") {
			continue
		}
		listed := &protocol.Instance{Id: it.id, Status: &protocol.InstanceStatus{InstanceState: it.state}}
		if s.has("shows errors") {
			listed.Status.ErrorInfo = &protocol.InstanceErrorInfo{ErrorCode: "BROKEN", InstanceErrorClass: 99}
		}
		answer.Instances = append(answer.Instances, listed)
		if s.has("lists instances twice") {
			answer.Instances = append(answer.Instances, listed)
		}
	}
	return answer, nil
}
