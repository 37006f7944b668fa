package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// scheme is the prefix of the provider IDs of this cloud.
const scheme = "file://"

// instance is a machine in the file of the cloud, which is a JSON list of instances.
type instance struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Zone      string   `json:"zone"`
	Region    string   `json:"region"`
	Addresses []string `json:"addresses"`
	Shutdown  bool     `json:"shutdown"`
}

// cloud reads its machines from the file for every call, so that its answers are never old. It keeps routes in memory:
// they are lost when the process ends, and the route controller creates them again. Load balancers have no state at all.
type cloud struct {
	path   string
	mu     sync.Mutex
	routes map[string]*cloudprovider.Route
}

func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return c, true }
func (c *cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return c, true }
func (c *cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (c *cloud) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)                              { return c, true }
func (c *cloud) ProviderName() string                                              { return "file" }
func (c *cloud) HasClusterID() bool                                                { return true }

// ---- machines

func (c *cloud) instances() ([]instance, error) {
	text, err := os.ReadFile(c.path)
	if err != nil {
		return nil, err
	}
	var all []instance
	return all, json.Unmarshal(text, &all)
}

// find looks for the machine of a node by provider ID if the node has one, else by name. It returns nil, without an
// error, if it finds none.
func (c *cloud) find(node *v1.Node) (*instance, error) {
	all, err := c.instances()
	if err != nil {
		return nil, err
	}
	for i, it := range all {
		id := strings.TrimPrefix(node.Spec.ProviderID, scheme)
		if id == it.ID || (id == "" && node.Name == it.Name) {
			return &all[i], nil
		}
	}
	return nil, nil
}

func (c *cloud) InstanceExists(_ context.Context, node *v1.Node) (bool, error) {
	it, err := c.find(node)
	return it != nil, err
}

func (c *cloud) InstanceShutdown(_ context.Context, node *v1.Node) (bool, error) {
	it, err := c.find(node)
	return it != nil && it.Shutdown, err
}

func (c *cloud) InstanceMetadata(_ context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	it, err := c.find(node)
	if err != nil {
		return nil, err
	}
	if it == nil {
		return nil, cloudprovider.InstanceNotFound
	}
	found := &cloudprovider.InstanceMetadata{
		ProviderID: scheme + it.ID, InstanceType: it.Type, Zone: it.Zone, Region: it.Region,
	}
	for _, address := range it.Addresses {
		found.NodeAddresses = append(found.NodeAddresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: address})
	}
	return found, nil
}

// ---- load balancers, whose address is computed from the name of the service

func (c *cloud) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	return service.Namespace + "/" + service.Name
}

func (c *cloud) GetLoadBalancer(
	_ context.Context, _ string, service *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	if len(service.Status.LoadBalancer.Ingress) == 0 {
		return nil, false, nil
	}
	return balancer(service), true, nil
}

func (c *cloud) EnsureLoadBalancer(
	_ context.Context, _ string, service *v1.Service, _ []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	return balancer(service), nil
}

func (c *cloud) UpdateLoadBalancer(context.Context, string, *v1.Service, []*v1.Node) error {
	return nil
}

func (c *cloud) EnsureLoadBalancerDeleted(context.Context, string, *v1.Service) error { return nil }

// balancer returns the status of a load balancer: its address, with all ports of the service, so that a change of the
// ports changes the status.
func balancer(service *v1.Service) *v1.LoadBalancerStatus {
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s/%s", service.Namespace, service.Name)
	sum := hash.Sum(nil)
	ingress := v1.LoadBalancerIngress{IP: netip.AddrFrom4([4]byte{198, 51, 100, sum[3]}).String()}
	for _, port := range service.Spec.Ports {
		ingress.Ports = append(ingress.Ports, v1.PortStatus{Port: port.Port, Protocol: port.Protocol})
	}
	return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{ingress}}
}

// ---- routes

func (c *cloud) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*cloudprovider.Route
	for _, route := range c.routes {
		all = append(all, route)
	}
	return all, nil
}

func (c *cloud) CreateRoute(_ context.Context, _ string, hint string, route *cloudprovider.Route) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := *route
	made.Name = hint
	c.routes[hint] = &made
	return nil
}

func (c *cloud) DeleteRoute(_ context.Context, _ string, route *cloudprovider.Route) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.routes, route.Name)
	return nil
}
