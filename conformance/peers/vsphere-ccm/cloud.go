package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// scheme is the prefix of the provider IDs of this cloud.
const scheme = "vsphere://"

// patience is the timeout of one lookup of a machine.
const patience = 20 * time.Second

// settings is the content of the configuration file, a JSON object.
type settings struct {
	URL      string `json:"url"`
	User     string `json:"user"`
	Password string `json:"password"`
	CA       string `json:"ca"`
}

// cloud reads vCenter anew for every call of a controller, with one session and no cache.
type cloud struct {
	settings settings
	mu       sync.Mutex
	client   *govmomi.Client
}

func newCloud(path string) (*cloud, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &cloud{}
	return c, json.Unmarshal(text, &c.settings)
}

func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return nil, false }
func (c *cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return c, true }
func (c *cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (c *cloud) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (c *cloud) ProviderName() string                                              { return "govmomi" }
func (c *cloud) HasClusterID() bool                                                { return true }

// connected returns a client with a session, and logs in again if the last session has ended.
func (c *cloud) connected(ctx context.Context) (*govmomi.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		if active, err := c.client.SessionManager.UserSession(ctx); err == nil && active != nil {
			return c.client, nil
		}
	}
	at, err := soap.ParseURL(c.settings.URL)
	if err != nil {
		return nil, err
	}
	transport := soap.NewClient(at, false)
	if err := transport.SetRootCAs(c.settings.CA); err != nil {
		return nil, err
	}
	client, err := vim25.NewClient(ctx, transport)
	if err != nil {
		return nil, err
	}
	sessions := session.NewManager(client)
	if err := sessions.Login(ctx, url.UserPassword(c.settings.User, c.settings.Password)); err != nil {
		return nil, err
	}
	c.client = &govmomi.Client{Client: client, SessionManager: sessions}
	return c.client, nil
}

// find looks for the machine of a node by BIOS UUID: that in its provider ID if it has one, else its system UUID in
// either byte order. It returns nil and no error if it finds none.
func (c *cloud) find(ctx context.Context, node *v1.Node) (*mo.VirtualMachine, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	uuids := []string{strings.TrimPrefix(node.Spec.ProviderID, scheme)}
	if node.Spec.ProviderID == "" {
		own := strings.ToLower(node.Status.NodeInfo.SystemUUID)
		uuids = []string{own, swapped(own)}
	}
	for _, uuid := range uuids {
		if uuid == "" {
			continue
		}
		found, err := object.NewSearchIndex(client.Client).FindAllByUuid(ctx, nil, uuid, true, types.NewBool(false))
		if err != nil {
			return nil, err
		}
		if len(found) > 1 {
			return nil, fmt.Errorf("%d machines have UUID %s", len(found), uuid)
		}
		if len(found) == 0 {
			continue
		}
		var machine mo.VirtualMachine
		err = property.DefaultCollector(client.Client).RetrieveOne(
			ctx, found[0].Reference(), []string{"config.uuid", "runtime.powerState", "guest.net"}, &machine)
		if err != nil {
			return nil, err
		}
		if machine.Config == nil || machine.Config.Uuid == "" {
			return nil, fmt.Errorf("%s shows no configuration", found[0].Reference())
		}
		return &machine, nil
	}
	return nil, nil
}

// swapped returns a UUID with its first three groups in the other byte order. It turns vCenter's form into that of the
// guest, and back.
func swapped(uuid string) string {
	if len(uuid) != 36 {
		return ""
	}
	turn := func(group string) string {
		turned := ""
		for i := len(group); i >= 2; i -= 2 {
			turned += group[i-2 : i]
		}
		return turned
	}
	return turn(uuid[:8]) + "-" + turn(uuid[9:13]) + "-" + turn(uuid[14:18]) + uuid[18:]
}

func (c *cloud) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	machine, err := c.find(ctx, node)
	return machine != nil, err
}

func (c *cloud) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	machine, err := c.find(ctx, node)
	return machine != nil && machine.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn, err
}

func (c *cloud) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	machine, err := c.find(ctx, node)
	if err != nil {
		return nil, err
	}
	if machine == nil {
		return nil, cloudprovider.InstanceNotFound
	}
	found := &cloudprovider.InstanceMetadata{
		ProviderID: scheme + machine.Config.Uuid, InstanceType: "vsphere-vm", Zone: "", Region: "",
		NodeAddresses: []v1.NodeAddress{{Type: v1.NodeHostName, Address: node.Name}},
	}
	if machine.Guest != nil {
		for _, nic := range machine.Guest.Net {
			for _, address := range nic.IpAddress {
				if ip := net.ParseIP(address); ip.To4() != nil && !ip.IsLinkLocalUnicast() {
					// Reports both types, as upstream's provider does, so that one provider can replace the other.
					found.NodeAddresses = append(found.NodeAddresses,
						v1.NodeAddress{Type: v1.NodeInternalIP, Address: address},
						v1.NodeAddress{Type: v1.NodeExternalIP, Address: address})
				}
			}
		}
	}
	if len(found.NodeAddresses) == 1 {
		return nil, fmt.Errorf("the machine of %s reports no address yet", node.Name)
	}
	return found, nil
}
