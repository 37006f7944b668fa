// Command vsphere-ccm is the stock cloud controller manager of k8s.io/cloud-provider with a minimal client of vSphere.
//
// Everything that talks to Kubernetes is upstream's code: node and lifecycle controllers, queues, leader election.
// cloud.go answers their calls with govmomi. The program shows which promises the framework by itself keeps and breaks.
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
	cloud, err := newCloud(path)
	if err != nil {
		klog.Fatalf("--cloud-config %q: %v", path, err)
	}
	return cloud
}
