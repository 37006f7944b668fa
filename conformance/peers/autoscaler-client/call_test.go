// Tests of the single calls, against the server of server_test.go.

package main

import (
	"bytes"
	"strings"
	"testing"
)

// A script grows a group, asks for it, and deletes one of its instances.
func TestSingleCallsPrintTheAnswers(t *testing.T) {
	c := clientOf(t, serve(t, &server{}))
	say := func(words ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := callOnce(c, words, &out); err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		return strings.TrimSpace(out.String())
	}
	expect := func(want string, words ...string) {
		t.Helper()
		if got := say(words...); got != want {
			t.Errorf("%v: got %s, want %s", words, got, want)
		}
	}
	expect("null", "Refresh")
	expect("0", "NodeGroupTargetSize", plainGroup)
	expect("null", "NodeGroupIncreaseSize", plainGroup, "2")
	expect("2", "NodeGroupTargetSize", plainGroup)
	instances, err := c.instances(plainGroup)
	if err != nil || len(instances) != 2 {
		t.Fatalf("%v, %v", instances, err)
	}
	expect(`"plain"`, "NodeGroupForNode", "one", instances[0].Id)
	expect(`""`, "NodeGroupForNode", "other", "kind://other")
	expect("null", "NodeGroupDeleteNodes", plainGroup, "one", instances[0].Id)
	expect("1", "NodeGroupTargetSize", plainGroup)
	if groups := say("NodeGroups"); !strings.Contains(groups, `"id":"plain"`) || !strings.Contains(groups, `"maxSize":4`) {
		t.Errorf("NodeGroups: %s", groups)
	}
	if template := say("NodeGroupTemplateNodeInfo", plainGroup); !strings.Contains(template, `"allocatable":{`) {
		t.Errorf("NodeGroupTemplateNodeInfo: %s", template)
	}
}

func TestWrongCallsAreRefused(t *testing.T) {
	served := &server{}
	c := clientOf(t, serve(t, served))
	for _, it := range []struct{ words, want string }{
		{"", "call needs a METHOD: NodeGroupDeleteNodes, "},
		{"Grow", `unknown METHOD "Grow": expected NodeGroupDeleteNodes, `},
		{"NodeGroupTargetSize", "NodeGroupTargetSize takes 1 arguments, not 0: GROUP"},
		{"NodeGroupIncreaseSize plain -1", `invalid DELTA "-1": expected a number of at least 1`},
		{"NodeGroupTargetSize none", "NodeGroupTargetSize: rpc error: code = NotFound"},
	} {
		var out bytes.Buffer
		err := callOnce(c, strings.Fields(it.words), &out)
		if err == nil || !strings.Contains(err.Error(), it.want) || out.Len() > 0 {
			t.Errorf("%q: got %v and %q, want %s", it.words, err, out.String(), it.want)
		}
	}
	if served.size != 0 {
		t.Errorf("a refused call changed the size to %d", served.size)
	}
}
