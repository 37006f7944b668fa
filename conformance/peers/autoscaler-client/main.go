// Command autoscaler-client is a client of the Cluster Autoscaler's protocol for external cloud providers, made with the tools that upstream
// uses: code of protoc-gen-go, grpc-go, and the Go types of Kubernetes.
//
// It calls all 15 methods of a server, and uses each answer as the autoscaler does: where the autoscaler dereferences a field, it does so
// too, and an absent field crashes the check. It prints a line per check, and exits with 1 if one fails.
//
// With the arguments `call METHOD ARGUMENT…` it makes only this call, and prints the answer in JSON.
//
// The program exists once per generation of the protocol. The modules of each are those of a release of the autoscaler: g1.mod has those of
// 1.31.5, g2.mod those of 1.34.3, and go.mod those of 1.36.1. The embedded types of G1 and G2 need k8s.io/api 0.34 or older, whose types are
// messages of protobuf.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	address := flag.String("address", "127.0.0.1:8086", "host and port of the server")
	cert := flag.String("cert", "", "certificate of the client, in PEM; without it the client speaks plain text")
	key := flag.String("key", "", "key of the client, in PEM")
	cacert := flag.String("cacert", "", "authorities of the server, in PEM")
	timeout := flag.Duration("grpc-timeout", 5*time.Second, "deadline of each call")
	group := flag.String("group", "", "ID of an empty group with a minimum of 0, a maximum of at least 2 and no own settings")
	tuned := flag.String("tuned", "", "ID=DURATION of a group whose only own setting is scaleDownUnneededTime")
	patience := flag.Duration("patience", 2*time.Minute, "time within which instances start and vanish")
	flag.Parse()

	const pause = 200 * time.Millisecond
	j := &judge{group: *group, looks: int(*patience/pause) + 1, pause: pause}
	single := flag.Arg(0) == "call"
	if !single && (*group == "" || flag.NArg() > 0) {
		usage("--group is required, and no arguments are allowed except call METHOD ARGUMENT…")
	}
	if *tuned != "" {
		id, duration, _ := strings.Cut(*tuned, "=")
		var err error
		if j.unneeded, err = time.ParseDuration(duration); err != nil {
			usage(fmt.Sprintf("invalid value %q of --tuned: expected ID=DURATION, such as workers=5m", *tuned))
		}
		j.tuned = id
	}
	transport, err := transportOf(*address, *cert, *key, *cacert)
	if err != nil {
		usage(err.Error())
	}
	if j.client, err = dial(*address, *timeout, transport); err != nil {
		usage(err.Error())
	}
	if single {
		if err := callOnce(j.client, flag.Args()[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "autoscaler-client:", err)
			os.Exit(1)
		}
		return
	}
	if len(j.run(os.Stdout)) > 0 {
		os.Exit(1)
	}
}

// transportOf decides as the autoscaler does: a certificate of the client makes the transport TLS. Authorities without a
// certificate make it TLS, too, for a client that the server must refuse.
func transportOf(address, cert, key, cacert string) (grpc.DialOption, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("invalid value %q of --address: %w", address, err)
	}
	if cert == "" && cacert == "" {
		if key != "" {
			return nil, fmt.Errorf("--key needs --cert")
		}
		return grpc.WithTransportCredentials(insecure.NewCredentials()), nil
	}
	var pairs []tls.Certificate
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cannot read --cert %q and --key %q: %w", cert, key, err)
		}
		pairs = append(pairs, pair)
	}
	pem, err := os.ReadFile(cacert)
	if err != nil {
		return nil, fmt.Errorf("cannot read --cacert: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--cacert %q has no certificate in PEM", cacert)
	}
	return grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		ServerName: host, Certificates: pairs, RootCAs: roots,
	})), nil
}

func usage(problem string) {
	fmt.Fprintln(os.Stderr, "autoscaler-client:", problem)
	flag.Usage()
	os.Exit(2)
}
