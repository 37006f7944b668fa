// Command vcsim serves govmomi's vCenter simulator, with which the benches compare our simulator.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("vcsim: ")
	model := simulator.VPX()
	listen := flag.String("l", "127.0.0.1:0", "address to listen on")
	plain := flag.Bool("plain", false, "serve HTTP instead of HTTPS")
	user := flag.String("username", "", "the only user that may log in; if empty, every user may")
	password := flag.String("password", "", "that user's password")
	flag.IntVar(&model.Datacenter, "dc", model.Datacenter, "datacenters")
	flag.IntVar(&model.Cluster, "cluster", model.Cluster, "clusters per datacenter")
	flag.IntVar(&model.ClusterHost, "host", model.ClusterHost, "hosts per cluster")
	flag.IntVar(&model.Host, "standalone-host", model.Host, "standalone hosts per datacenter")
	flag.IntVar(&model.Machine, "vm", model.Machine, "machines per resource pool")
	flag.Parse()

	if err := model.Create(); err != nil {
		log.Fatal(err)
	}
	defer model.Remove()
	service := model.Service
	service.RegisterEndpoints = true
	service.Listen = &url.URL{Host: *listen}
	if *user != "" {
		service.Listen.User = url.UserPassword(*user, *password)
	}
	if !*plain {
		service.TLS = new(tls.Config)
	}
	server := service.NewServer()
	fmt.Printf("export GOVC_URL=%s\n", server.URL)

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop // the process then ends at once, because a graceful close would wait for long polls
}
