// Command ccm is the stock cloud controller manager of k8s.io/cloud-provider, with a file in place of a cloud.
//
// Everything that talks to Kubernetes is upstream's code: node, lifecycle, service and route controllers, leader election.
// The file that --cloud-config names lists the machines (see cloud.go). A test shuts down or deletes machines by editing it.
package main

import (
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

func main() {
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("options: %v", err)
	}
	command := app.NewCloudControllerManagerCommand(
		opts, open, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), flag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}

func open(config *config.CompletedConfig) cloudprovider.Interface {
	path := config.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile
	cloud := &cloud{path: path, routes: map[string]*cloudprovider.Route{}}
	if _, err := cloud.instances(); err != nil {
		klog.Fatalf("--cloud-config %q: %v", path, err)
	}
	return cloud
}
