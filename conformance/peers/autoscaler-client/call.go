// Single calls, for a script that decides as an autoscaler does.

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// call is a method that `autoscaler-client call METHOD ARGUMENT…` sends once.
type call struct {
	arguments []string
	send      func(*client, []string) (any, error)
}

// calls are the methods with which an autoscaler grows and shrinks groups.
var calls = map[string]call{
	"Refresh":    {nil, func(c *client, _ []string) (any, error) { return nil, c.refresh() }},
	"NodeGroups": {nil, func(c *client, _ []string) (any, error) { return c.groups() }},
	"NodeGroupForNode": {[]string{"NAME", "PROVIDER_ID"}, func(c *client, words []string) (any, error) {
		group, err := c.groupFor(named(words[0], words[1]))
		return group.GetId(), err
	}},
	"NodeGroupTargetSize": {[]string{"GROUP"}, func(c *client, words []string) (any, error) { return c.targetSize(words[0]) }},
	"NodeGroupTemplateNodeInfo": {[]string{"GROUP"}, func(c *client, words []string) (any, error) {
		node, err := c.template(words[0])
		if err == nil && node == nil {
			err = fmt.Errorf("group %s: the template has no Node", words[0])
		}
		return node, err
	}},
	"NodeGroupIncreaseSize": {[]string{"GROUP", "DELTA"}, func(c *client, words []string) (any, error) {
		delta, err := strconv.ParseInt(words[1], 10, 32)
		if err != nil || delta < 1 {
			return nil, fmt.Errorf("invalid DELTA %q: expected a number of at least 1", words[1])
		}
		return nil, c.increase(words[0], int(delta))
	}},
	"NodeGroupDeleteNodes": {[]string{"GROUP", "NAME", "PROVIDER_ID"}, func(c *client, words []string) (any, error) {
		return nil, c.deleteNodes(words[0], named(words[1], words[2]))
	}},
}

// callOnce sends the method that the words name, and prints the answer in JSON.
func callOnce(c *client, words []string, out io.Writer) error {
	if len(words) == 0 {
		return fmt.Errorf("call needs a METHOD: %s", methods())
	}
	it, known := calls[words[0]]
	if !known {
		return fmt.Errorf("unknown METHOD %q: expected %s", words[0], methods())
	}
	if len(words)-1 != len(it.arguments) {
		return fmt.Errorf("%s takes %d arguments, not %d: %s", words[0], len(it.arguments), len(words)-1, strings.Join(it.arguments, " "))
	}
	answer, err := it.send(c, words[1:])
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	return json.NewEncoder(out).Encode(answer)
}

func methods() string {
	names := []string{}
	for name := range calls {
		names = append(names, name)
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

func named(name, providerID string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{ProviderID: providerID}}
}
