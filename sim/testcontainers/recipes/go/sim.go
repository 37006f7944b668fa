// Package simtest is a simulated vCenter for tests in Go: a type over testcontainers-go, for you to
// copy into a project.
//
//	sim := simtest.Start(t, "--vms=3")
//	client.Login(sim.VCenter.URL, sim.VCenter.Administrator, sim.Roots)
//
// Start removes the container when the test ends. Admin sends a request to the admin port: fault
// rules, ledger, events. The engine picks the published ports, so Start replaces the URLs that sim
// reports by those that are valid outside the container.
package simtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	vcenterPort = "8989/tcp"
	clusterPort = "26443/tcp"
	adminPort   = "8900/tcp"
)

// Account is a user who can log in to a vCenter.
type Account struct{ Username, Password string }

// VCenter is the first vCenter of a world.
type VCenter struct {
	URL                     string
	Thumbprint              string
	Administrator, Provider Account
}

// Cluster is the workload cluster, with the bearer token of its administrator.
type Cluster struct{ URL, Token string }

// Sim is a running container of sim, the simulator.
type Sim struct {
	VCenter VCenter
	Cluster Cluster
	// CertificateAuthority has signed every certificate, as PEM; Roots trusts only this authority.
	CertificateAuthority string
	Roots                *x509.CertPool

	t            *testing.T
	admin, token string
}

// Start runs `sim serve` with the given flags, such as `--vms=3`, and returns when it accepts
// connections. SIM_IMAGE names the image; the default is the one that kind/images/build.sh builds.
func Start(t *testing.T, flags ...string) *Sim {
	t.Helper()
	ctx := context.Background()
	image := os.Getenv("SIM_IMAGE")
	if image == "" {
		image = "vsphere-lab/sim:0.1.0"
	}
	token := rand.Text()
	command := []string{"serve",
		"--vcenter-listen=0.0.0.0:8989", "--cluster-listen=0.0.0.0:26443", "--admin-listen=0.0.0.0:8900",
		// Addresses under which a test that runs in a container reaches published ports.
		"--tls-san=172.17.0.1", "--tls-san=host.docker.internal"}
	it, err := testcontainers.Run(ctx, image,
		testcontainers.WithCmd(append(command, flags...)...),
		testcontainers.WithEnv(map[string]string{"SIM_ADMIN_TOKEN": token}),
		testcontainers.WithLabels(map[string]string{"io.vsphere-lab.testcontainers": "go"}),
		testcontainers.WithExposedPorts(vcenterPort, clusterPort, adminPort),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.ReadonlyRootfs = true
			host.CapDrop = []string{"ALL"}
		}),
		// sim prints this line when every listener accepts connections.
		testcontainers.WithWaitStrategy(wait.ForLog("export SIM_ADMIN=")),
	)
	testcontainers.CleanupContainer(t, it)
	if err != nil {
		t.Fatalf("sim did not start: %v; if the image %s is missing, build it with kind/images/build.sh sim", err, image)
	}
	endpoint := func(port, scheme string) string {
		url, err := it.PortEndpoint(ctx, port, scheme)
		if err != nil {
			t.Fatalf("port %s is not published: %v", port, err)
		}
		return url
	}
	sim := &Sim{t: t, admin: endpoint(adminPort, "http"), token: token}
	var told struct {
		CertificateAuthority string
		VCenters             []VCenter
		Cluster              Cluster
	}
	sim.Admin("GET", "/endpoints", nil, &told)
	sim.VCenter, sim.Cluster, sim.CertificateAuthority = told.VCenters[0], told.Cluster, told.CertificateAuthority
	sim.VCenter.URL, sim.Cluster.URL = endpoint(vcenterPort, "https"), endpoint(clusterPort, "https")
	sim.Roots = x509.NewCertPool()
	if !sim.Roots.AppendCertsFromPEM([]byte(sim.CertificateAuthority)) {
		t.Fatal("the certificate authority of sim is not valid PEM")
	}
	return sim
}

// Admin sends one request to the admin port, and reads the answer into `into` unless that is nil.
func (s *Sim) Admin(method, path string, body, into any) {
	s.t.Helper()
	fail := func(err error) { s.t.Helper(); s.t.Fatalf("%s %s: %v", method, path, err) }
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			fail(err)
		}
	}
	request, err := http.NewRequest(method, s.admin+path, bytes.NewReader(text))
	if err != nil {
		fail(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		fail(err)
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(answer.Body); err != nil {
		fail(err)
	}
	if answer.StatusCode >= 300 {
		fail(fmt.Errorf("%s: %s", answer.Status, text))
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			fail(err)
		}
	}
}

// Calls returns the number of calls of an operation, such as Login, in the ledger.
func (s *Sim) Calls(operation string) int {
	s.t.Helper()
	var counts struct {
		Operations []struct {
			Op    string
			Calls int
		}
	}
	s.Admin("GET", "/ledger?format=counts", nil, &counts)
	n := 0
	for _, it := range counts.Operations {
		if it.Op == operation {
			n += it.Calls
		}
	}
	return n
}
