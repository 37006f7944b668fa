// Tests of the judge: each flaw of a server must fail its checks and no others, so that a server that passes has been looked at.

package main

import (
	"bytes"
	"net"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"peers/autoscaler-client/protocol"
)

// Flaws of a server, and the checks that fail: those of every generation, and those of one.
var flaws = []struct {
	flaw, fails string
	only        map[string]string
}{
	{"no flaw", "", nil},
	{"no prices", "", nil},
	{"negative minimum", "groups", nil},
	{"lists a group twice", "groups", nil},
	{"lists no groups", "groups template options maximum member", nil},
	{"Refresh fails", "refresh", nil},
	{"starts with an instance", "empty unknown-field maximum", nil},
	{"foreign Node is an error", "foreign unknown-field", nil},
	{"foreign Node has a group", "foreign unknown-field", nil},
	{"GPU types are not implemented", "gpu", nil},
	{"template without pods", "template", nil},
	{"template offers more than it has", "template", nil},
	{"template without architecture", "template", nil},
	{"template with provider ID", "template", nil},
	{"template is not ready", "template", nil},
	{"no template at zero", "template", map[string]string{"G2": "template-both"}},
	// G1 reads only the embedded Node, and G3 only the bytes. G2 falls back.
	{"only the new template", "", map[string]string{"G1": "template", "G2": "template-both"}},
	{"only the old template", "", map[string]string{"G2": "template-both", "G3": "template"}},
	{"two different templates", "", map[string]string{"G2": "template-both"}},
	{"broken bytes of the template", "", map[string]string{"G2": "template template-both", "G3": "template"}},
	{"field of the future in the template", "", map[string]string{"G2": "template-both"}},
	{"field of the future in the settings", "", map[string]string{"G2": "options-both"}},
	{"empty template", "template", map[string]string{"G2": "template-both"}},
	// G1 crashes without the old durations, and G3 reads absent new ones as zero.
	{"only the new durations", "", map[string]string{"G1": "options override unknown-field", "G2": "options-both"}},
	{"only the old durations", "", map[string]string{"G2": "options-both", "G3": "options override"}},
	{"no durations", "options override", map[string]string{"G1": "unknown-field", "G2": "unknown-field options-both"}},
	{"nanoseconds as seconds", "", map[string]string{"G2": "options override options-both", "G3": "options override"}},
	{"settings of a group without its own", "options", nil},
	{"ignores the defaults", "override", nil},
	{"copies the wrong threshold", "options override", nil},
	{"forgets its own setting", "override", nil},
	{"flat prices", "prices", nil},
	{"prices of Nodes only", "prices", nil},
	{"prices cannot be reached", "prices methods", nil},
	{"unknown group has a size", "unknown-group", nil},
	{"unknown group has no template", "unknown-group", nil},
	{"refuses unknown fields", "unknown-field", nil},
	{"accepts an increase above the maximum", "maximum", nil},
	{"raises the size late", "grow", nil},
	{"never runs", "run member decrease delete-foreign delete delete-again delete-fake gone cleanup", nil},
	{"changes IDs", "run member decrease delete-foreign delete delete-again delete-fake gone cleanup", nil},
	{"shows errors", "run member decrease delete-foreign delete delete-again delete-fake gone cleanup", nil},
	{"lists instances twice", "run member decrease delete-foreign delete delete-again delete-fake gone cleanup", nil},
	{"loses fake Nodes", "member", nil},
	{"other bounds for a Node", "member", nil},
	{"accepts a decrease of existing instances", "decrease", nil},
	{"ignores foreign Nodes in a deletion", "delete-foreign", nil},
	{"deletes another instance", "delete delete-again", nil},
	{"deletion keeps the size", "delete delete-again delete-fake cleanup", nil},
	{"fails a repeated deletion", "delete-again", nil},
	{"counts a repeated deletion", "delete-again delete-fake cleanup", nil},
	{"refuses fake Nodes", "delete-fake gone cleanup", nil},
	{"keeps deleted instances", "gone", nil},
	{"Cleanup forgets a group", "cleanup", nil},
}

func expected(n int) []string {
	names := strings.Fields(flaws[n].fails + " " + flaws[n].only[generation])
	sort.Strings(names)
	return names
}

func TestEachFlawFailsItsChecksAndNoOthers(t *testing.T) {
	for n, it := range flaws {
		t.Run(it.flaw, func(t *testing.T) {
			failed, printed := judged(t, &server{flaw: it.flaw})
			sort.Strings(failed)
			if want := expected(n); !reflect.DeepEqual(failed, want) {
				t.Errorf("failed: %v\nexpected: %v\n%s", failed, want, printed)
			}
		})
	}
}

func TestEachCheckFailsForSomeFlaw(t *testing.T) {
	failing := map[string]bool{}
	for n := range flaws {
		for _, name := range expected(n) {
			failing[name] = true
		}
	}
	for _, it := range checks() {
		if !failing[it.name] {
			t.Errorf("no flaw fails the check %s", it.name)
		}
	}
}

func TestServerThatCannotBeReachedPassesNoCheck(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	failed, printed := run(t, listener.Addr().String())
	if len(failed) != len(checks()) {
		t.Errorf("failed: %v\n%s", failed, printed)
	}
}

func TestAbsentTemplateIsReportedAsCrash(t *testing.T) {
	_, printed := judged(t, &server{flaw: "empty template"})
	if !strings.Contains(printed, "crashes an autoscaler of generation "+generation) {
		t.Error(printed)
	}
}

func TestSettingsHaveTheFieldsOfTheirGeneration(t *testing.T) {
	it := oneDefaults
	it.zeroOrMax, it.ignoreDaemonSets = true, true
	content, err := proto.Marshal(optionsMessage(it))
	if err != nil {
		t.Fatal(err)
	}
	numbers := []int{}
	for len(content) > 0 {
		number, _, length := protowire.ConsumeField(content)
		if length < 0 {
			t.Fatal(protowire.ParseError(length))
		}
		numbers = append(numbers, int(number))
		content = content[length:]
	}
	sort.Ints(numbers)
	if !reflect.DeepEqual(numbers, optionFields) {
		t.Errorf("fields %v; expected %v", numbers, optionFields)
	}
}

func judged(t *testing.T, server *server) ([]string, string) {
	t.Helper()
	return run(t, serve(t, server))
}

// serve serves on a port of loopback until the test ends, and returns its address.
func serve(t *testing.T, server *server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// One call at a time, because the server has no locks.
	serving := grpc.NewServer(grpc.MaxConcurrentStreams(1))
	protocol.RegisterCloudProviderServer(serving, server)
	done := make(chan error, 1)
	go func() { done <- serving.Serve(listener) }()
	t.Cleanup(func() {
		serving.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func clientOf(t *testing.T, address string) *client {
	t.Helper()
	client, err := dial(address, 10*time.Second, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func run(t *testing.T, address string) ([]string, string) {
	t.Helper()
	j := &judge{client: clientOf(t, address), group: plainGroup, tuned: tunedGroup, unneeded: tunedUnneeded, looks: 4}
	var printed bytes.Buffer
	failed := j.run(&printed)
	return failed, printed.String()
}
