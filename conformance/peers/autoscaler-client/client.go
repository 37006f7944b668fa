// The calls of the autoscaler. Each generation adds the messages that differ, in g1.go, g2.go and g3.go.

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"peers/autoscaler-client/protocol"
)

// client calls a server in the way of the autoscaler's own client: one channel, one deadline per call, no metadata. It has no caches, so that
// each check asks the server.
type client struct {
	rpc     protocol.CloudProviderClient
	timeout time.Duration

	mutex sync.Mutex
	// Numbers of calls that the server answered, by method.
	answered map[string]int
}

// dial opens the channel. As in the autoscaler, it does not wait for the connection, and the name is resolved when the channel connects.
func dial(address string, timeout time.Duration, credentials grpc.DialOption) (*client, error) {
	c := &client{timeout: timeout, answered: map[string]int{}}
	channel, err := grpc.Dial(address, credentials, grpc.WithUnaryInterceptor(c.count))
	if err != nil {
		return nil, fmt.Errorf("cannot make a channel to %q: %w", address, err)
	}
	c.rpc = protocol.NewCloudProviderClient(channel)
	return c, nil
}

func (c *client) count(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if isAnswer(err) {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.answered[method]++
	}
	return err
}

func (c *client) deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), c.timeout)
}

// ask calls a method with the deadline of the client.
func ask[Q, A any](c *client, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	ctx, cancel := c.deadline()
	defer cancel()
	return method(ctx, request)
}

// isAnswer is false of an error that the client itself makes if the server cannot be reached or is late.
func isAnswer(err error) bool {
	code := status.Code(err)
	return code != codes.Unavailable && code != codes.DeadlineExceeded
}

// notImplemented is true of an error that the autoscaler takes as "this server has no such feature". It does so for four methods.
func notImplemented(err error) bool {
	return status.Code(err) == codes.Unimplemented
}

func (c *client) groups() ([]*protocol.NodeGroup, error) {
	answer, err := ask(c, c.rpc.NodeGroups, &protocol.NodeGroupsRequest{})
	return answer.GetNodeGroups(), err
}

func (c *client) refresh() error {
	_, err := ask(c, c.rpc.Refresh, &protocol.RefreshRequest{})
	return err
}

func (c *client) cleanup() error {
	_, err := ask(c, c.rpc.Cleanup, &protocol.CleanupRequest{})
	return err
}

// groupFor returns the group of a Node; nil for a Node of no group.
func (c *client) groupFor(node *v1.Node) (*protocol.NodeGroup, error) {
	answer, err := ask(c, c.rpc.NodeGroupForNode, &protocol.NodeGroupForNodeRequest{Node: sent(node)})
	if err != nil || answer.GetNodeGroup().GetId() == "" {
		return nil, err
	}
	return answer.GetNodeGroup(), nil
}

func (c *client) gpuLabel() (string, error) {
	answer, err := ask(c, c.rpc.GPULabel, &protocol.GPULabelRequest{})
	return answer.GetLabel(), err
}

func (c *client) gpuTypes() (map[string]struct{}, error) {
	answer, err := ask(c, c.rpc.GetAvailableGPUTypes, &protocol.GetAvailableGPUTypesRequest{})
	types := map[string]struct{}{}
	for key := range answer.GetGpuTypes() {
		types[key] = struct{}{}
	}
	return types, err
}

func (c *client) nodePrice(node *v1.Node, start, end time.Time) (float64, error) {
	answer, err := ask(c, c.rpc.PricingNodePrice, nodePriceRequest(node, start, end))
	return answer.GetPrice(), err
}

func (c *client) podPrice(pod *v1.Pod, start, end time.Time) (float64, error) {
	request, err := podPriceRequest(pod, start, end)
	if err != nil {
		return 0, err
	}
	answer, err := ask(c, c.rpc.PricingPodPrice, request)
	return answer.GetPrice(), err
}

func (c *client) targetSize(group string) (int, error) {
	answer, err := ask(c, c.rpc.NodeGroupTargetSize, &protocol.NodeGroupTargetSizeRequest{Id: group})
	return int(answer.GetTargetSize()), err
}

func (c *client) increase(group string, delta int) error {
	_, err := ask(c, c.rpc.NodeGroupIncreaseSize, &protocol.NodeGroupIncreaseSizeRequest{Id: group, Delta: int32(delta)})
	return err
}

func (c *client) decrease(group string, delta int) error {
	_, err := ask(c, c.rpc.NodeGroupDecreaseTargetSize, &protocol.NodeGroupDecreaseTargetSizeRequest{Id: group, Delta: int32(delta)})
	return err
}

func (c *client) deleteNodes(group string, nodes ...*v1.Node) error {
	request := &protocol.NodeGroupDeleteNodesRequest{Id: group}
	for _, node := range nodes {
		request.Nodes = append(request.Nodes, sent(node))
	}
	_, err := ask(c, c.rpc.NodeGroupDeleteNodes, request)
	return err
}

func (c *client) instances(group string) ([]*protocol.Instance, error) {
	answer, err := ask(c, c.rpc.NodeGroupNodes, &protocol.NodeGroupNodesRequest{Id: group})
	return answer.GetInstances(), err
}

// template returns the Node that a new instance becomes. Without an error the autoscaler uses the Node unchecked, even nil.
func (c *client) template(group string) (*v1.Node, error) {
	answer, err := ask(c, c.rpc.NodeGroupTemplateNodeInfo, &protocol.NodeGroupTemplateNodeInfoRequest{Id: group})
	if err != nil {
		return nil, err
	}
	return nodeOf(answer)
}

// options returns the settings of a group; the defaults if the server has none for it.
func (c *client) options(group string, defaults options) (options, error) {
	return c.sendOptions(group, optionsMessage(defaults), defaults)
}

func (c *client) sendOptions(group string, message *protocol.NodeGroupAutoscalingOptions, defaults options) (options, error) {
	request := &protocol.NodeGroupAutoscalingOptionsRequest{Id: group, Defaults: message}
	answer, err := ask(c, c.rpc.NodeGroupGetOptions, request)
	if notImplemented(err) {
		return defaults, nil
	}
	if err != nil {
		return options{}, err
	}
	if answer.GetNodeGroupAutoscalingOptions() == nil {
		return defaults, nil
	}
	return optionsOf(answer.GetNodeGroupAutoscalingOptions()), nil
}

// sent returns the parts of a Node that the autoscaler sends.
func sent(node *v1.Node) *protocol.ExternalGrpcNode {
	return &protocol.ExternalGrpcNode{
		ProviderID: node.Spec.ProviderID, Name: node.Name, Labels: node.Labels, Annotations: node.Annotations,
	}
}

// options are the settings of a group.
type options struct {
	utilization, gpuUtilization  float64
	unneeded, unready, provision time.Duration
	zeroOrMax, ignoreDaemonSets  bool
}
