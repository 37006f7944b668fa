// Command vm-conversion converts objects of the VM Operator's kinds between their versions with the VM Operator's own
// code, and records inputs and results as fixtures. It contains no rules of conversion; it only calls the VM Operator's
// methods.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	"github.com/vmware-tanzu/vm-operator/api/utilconversion"
	"github.com/vmware-tanzu/vm-operator/api/v1alpha1"
	"github.com/vmware-tanzu/vm-operator/api/v1alpha2"
	"github.com/vmware-tanzu/vm-operator/api/v1alpha3"
	"github.com/vmware-tanzu/vm-operator/api/v1alpha4"
	"github.com/vmware-tanzu/vm-operator/api/v1alpha5"
	"github.com/vmware-tanzu/vm-operator/api/v1alpha6"
)

const (
	group = "vmoperator.vmware.com"
	hub   = "v1alpha6"
)

var versions = []string{"v1alpha1", "v1alpha2", "v1alpha3", "v1alpha4", "v1alpha5", hub}

var kinds = []string{
	"VirtualMachine", "VirtualMachineService", "VirtualMachineClass", "VirtualMachineImage",
	"ClusterVirtualMachineImage", "VirtualMachineSetResourcePolicy", "VirtualMachineGroup",
}

var scheme = runtime.NewScheme()

func init() {
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, v1alpha2.AddToScheme, v1alpha3.AddToScheme,
		v1alpha4.AddToScheme, v1alpha5.AddToScheme, v1alpha6.AddToScheme,
	} {
		must(add(scheme))
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func gvk(version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

func fresh(version, kind string) runtime.Object {
	object, err := scheme.New(gvk(version, kind))
	must(err)
	return object
}

// convert converts one object as controller-runtime's conversion webhook does: through the hub version, if neither version
// is the hub.
func convert(kind string, object []byte, from, to string) ([]byte, error) {
	source, target := fresh(from, kind), fresh(to, kind)
	if err := json.Unmarshal(object, source); err != nil {
		return nil, err
	}
	target.GetObjectKind().SetGroupVersionKind(gvk(to, kind))
	var err error
	switch {
	case from == hub:
		err = target.(conversion.Convertible).ConvertFrom(source.(conversion.Hub))
	case to == hub:
		err = source.(conversion.Convertible).ConvertTo(target.(conversion.Hub))
	default:
		between := fresh(hub, kind).(conversion.Hub)
		if err = source.(conversion.Convertible).ConvertTo(between); err == nil {
			err = target.(conversion.Convertible).ConvertFrom(between)
		}
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(target)
}

// file is the fixture of one kind: objects, and the conversions between them. The fixture stores each text of the
// conversion annotation once; an object has `@N` in place of the text.
type file struct {
	kind      string
	objects   []string
	documents []map[string]any
	numbers   map[string]int
	texts     []string
	steps     []string
	seen      map[string]bool
}

// number returns the position of an object in the file, and adds the object if it is new.
func (f *file) number(object []byte) int {
	document := parse(object)
	if notes := annotations(document); notes != nil {
		if text, ok := notes[utilconversion.AnnotationKey].(string); ok {
			at := -1
			for i, known := range f.texts {
				if known == text {
					at = i
				}
			}
			if at < 0 {
				at = len(f.texts)
				f.texts = append(f.texts, text)
			}
			notes[utilconversion.AnnotationKey] = fmt.Sprintf("@%d", at)
		}
	}
	sortProperties(document)
	// Drops an empty time, because its notation depends on the version of Go's types and not on the conversion.
	if metadata, _ := document["metadata"].(map[string]any); metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}
	text := string(print(document))
	at, ok := f.numbers[text]
	if !ok {
		at = len(f.objects)
		f.objects = append(f.objects, f.shortest(document, text))
		f.documents = append(f.documents, document)
		f.numbers[text] = at
	}
	return at
}

// shortest returns the shortest notation of an object: the whole object, or the number of an earlier object and a merge
// patch to it.
func (f *file) shortest(document map[string]any, text string) string {
	const looked = 60
	for other := len(f.documents) - 1; other >= max(0, len(f.documents)-looked); other-- {
		before := f.documents[other]
		patch := difference(before, document)
		if short := fmt.Sprintf("[%d,%s]", other, print(patch)); len(short) < len(text) && reflect.DeepEqual(patched(before, patch), document) {
			text = short
		}
	}
	return text
}

// difference returns the merge patch that turns one object into another. The patch is wrong if the other object has a
// null, which a merge patch cannot set; shortest checks this.
func difference(before, after map[string]any) map[string]any {
	patch := map[string]any{}
	for key := range before {
		if _, ok := after[key]; !ok {
			patch[key] = nil
		}
	}
	for key, value := range after {
		old, ok := before[key]
		was, isMap := old.(map[string]any)
		is, stays := value.(map[string]any)
		switch {
		case ok && reflect.DeepEqual(old, value):
		case isMap && stays:
			patch[key] = difference(was, is)
		default:
			patch[key] = value
		}
	}
	return patch
}

// patched returns an object with a merge patch applied.
func patched(before, patch map[string]any) map[string]any {
	after := maps.Clone(before)
	if after == nil {
		after = map[string]any{}
	}
	for key, value := range patch {
		part, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(after, key)
		case isMap:
			was, _ := before[key].(map[string]any)
			after[key] = patched(was, part)
		default:
			after[key] = value
		}
	}
	return after
}

// step converts one object, and records the object, the target version and the result. If the VM Operator's code refuses
// the conversion, step records null and returns nil.
func (f *file) step(object []byte, from, to string) []byte {
	result, err := convert(f.kind, object, from, to)
	want := "null"
	if err == nil {
		want = fmt.Sprint(f.number(result))
	}
	line := fmt.Sprintf("[%d,%q,%s]", f.number(object), to, want)
	if !f.seen[line] {
		f.seen[line] = true
		f.steps = append(f.steps, line)
	}
	return result
}

// journeys converts one object to all versions and back to the hub: with the conversion annotation, without it, and, if
// edits is true, with edits in between.
func (f *file) journeys(object []byte, from string, edits bool) {
	known := served(f.kind)
	if from != hub {
		for _, to := range known {
			if to != from {
				f.step(object, from, to)
			}
		}
		object = f.step(object, from, hub)
	}
	if object == nil {
		return
	}
	for _, to := range known {
		if to == hub {
			continue
		}
		down := f.step(object, hub, to)
		f.step(down, to, hub)
		f.step(change(down, func(it map[string]any) { delete(annotations(it), utilconversion.AnnotationKey) }), to, hub)
		if !edits {
			continue
		}
		for _, edit := range editsOf(f.kind, to) {
			if edited := change(down, edit); !bytes.Equal(edited, down) {
				f.step(edited, to, hub)
			}
		}
	}
}

func served(kind string) []string {
	var known []string
	for _, version := range versions {
		if scheme.Recognizes(gvk(version, kind)) {
			known = append(known, version)
		}
	}
	return known
}

// sortProperties sorts lists that come from a Go map, whose order is random.
func sortProperties(document map[string]any) {
	status, _ := document["status"].(map[string]any)
	for _, field := range []string{"ovfProperties", "vmwareSystemProperties"} {
		if list, ok := status[field].([]any); ok {
			sort.SliceStable(list, func(a, b int) bool {
				return fmt.Sprint(list[a].(map[string]any)["key"]) < fmt.Sprint(list[b].(map[string]any)["key"])
			})
		}
	}
}

func change(object []byte, edit func(map[string]any)) []byte {
	document := parse(object)
	edit(document)
	return print(document)
}

func parse(object []byte) map[string]any {
	document := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	must(decoder.Decode(&document))
	return document
}

func print(document any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	must(encoder.Encode(document))
	return bytes.TrimSpace(out.Bytes())
}

func annotations(document map[string]any) map[string]any {
	metadata, _ := document["metadata"].(map[string]any)
	notes, _ := metadata["annotations"].(map[string]any)
	return notes
}

func (f *file) write(dir string) {
	var texts []string
	for _, text := range f.texts {
		texts = append(texts, string(print(text)))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "{\"kind\":%q,\n\"about\":%q,\n", f.kind,
		"Made by conformance/peers/vm-conversion with the VM Operator's own code. "+
			"conversions: number of an object, wanted version, number of what comes out (null: refused). "+
			"An object [N,P] is the one before it with number N, changed by the merge patch P. "+
			"An annotation @N stands for texts[N].")
	for _, part := range []struct {
		name  string
		lines []string
	}{{"texts", texts}, {"objects", f.objects}, {"conversions", f.steps}} {
		fmt.Fprintf(&out, "%q:[\n%s\n]", part.name, strings.Join(part.lines, ",\n"))
		if part.name != "conversions" {
			out.WriteString(",\n")
		}
	}
	out.WriteString("}\n")
	path := filepath.Join(dir, f.kind+".json")
	must(os.WriteFile(path, []byte(out.String()), 0o644))
	fmt.Printf("%s: %d objects, %d conversions, %d bytes\n", path, len(f.objects), len(f.steps), out.Len())
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: vm-conversion DIR")
	}
	for _, kind := range kinds {
		f := &file{kind: kind, numbers: map[string]int{}, seen: map[string]bool{}}
		for _, version := range served(kind) {
			for at, share := range shares(kind, version) {
				// Only the hub's object with all fields filled is also edited; the others are only converted.
				f.journeys(filled(version, kind, int64(at), share), version, version == hub && at == 0)
			}
			for _, text := range written(kind, version) {
				f.journeys(whole(version, kind, text), version, version == hub && strings.Contains(text, "EDITED"))
			}
		}
		f.write(os.Args[1])
	}
}
