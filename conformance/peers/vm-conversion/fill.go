package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// shares returns one number for each random object to make: the share of its fields that get a value, from 0 to 1.
func shares(kind, version string) []float64 {
	switch {
	case kind != "VirtualMachine":
		return []float64{1, 0.6, 0.3, 0}
	case version == hub:
		return []float64{1, 0.7, 0.5, 0.5, 0.2, 0}
	case version == "v1alpha1":
		return []float64{1, 0.6, 0.4, 0}
	}
	return []float64{1, 0.5}
}

// words lists the permitted values of string types that accept only some texts.
var words = map[string][]string{
	"v1alpha1.VirtualMachinePowerState":        {"poweredOn", "poweredOff", "suspended"},
	"v1alpha1.VirtualMachinePowerOpMode":       {"hard", "soft", "trySoft"},
	"v1alpha1.VirtualMachineMetadataTransport": {"CloudInit", "Sysprep", "OvfEnv"},
	"VirtualMachinePowerState":                 {"PoweredOn", "PoweredOff", "Suspended"},
	"VirtualMachinePowerOpMode":                {"Hard", "Soft", "TrySoft"},
	"VolumeProvisioningMode":                   {"Thin", "Thick", "ThickEagerZero"},
	"VolumeType":                               {"Managed", "Classic"},
	"ConditionStatus":                          {"True", "False", "Unknown"},
	"ConditionType":                            {"VirtualMachineCreated", "VirtualMachineToolsReady"},
	"GuestHeartbeatStatus":                     {"green", "yellow"},
	"IPFamily":                                 {"IPv4", "IPv6"},
}

type filler struct {
	random *rand.Rand
	share  float64
	n      int
}

// filled makes an object in which the given share of the fields has a value. The same seed gives the same object.
func filled(version, kind string, seed int64, share float64) []byte {
	object := fresh(version, kind)
	f := &filler{random: rand.New(rand.NewSource(seed)), share: share}
	value := reflect.ValueOf(object).Elem()
	for _, part := range []string{"Spec", "Status"} {
		if field := value.FieldByName(part); field.IsValid() {
			f.fill(field)
		}
	}
	object.GetObjectKind().SetGroupVersionKind(gvk(version, kind))
	meta := object.(metav1.Object)
	meta.SetName(fmt.Sprintf("%s-%d", strings.ToLower(kind), seed))
	if kind != "ClusterVirtualMachineImage" {
		meta.SetNamespace("vms")
	}
	// Some objects get generation 0, which marks a new object.
	meta.SetGeneration((seed + 1) % 3)
	if seed%2 == 0 {
		meta.SetAnnotations(map[string]string{"note": "kept <&> as it is"})
	}
	text, err := json.Marshal(object)
	must(err)
	return text
}

func (f *filler) number() int64 {
	f.n++
	return int64(f.n)
}

func (f *filler) fill(value reflect.Value) {
	if f.special(value) {
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		if f.wanted() {
			value.Set(reflect.New(value.Type().Elem()))
			f.fill(value.Elem())
		}
	case reflect.Struct:
		for i := range value.NumField() {
			f.fill(value.Field(i))
		}
	case reflect.Slice:
		if !f.wanted() {
			return
		}
		for range 1 + f.random.Intn(2) {
			element := reflect.New(value.Type().Elem()).Elem()
			f.fill(element)
			value.Set(reflect.Append(value, element))
		}
	case reflect.Map:
		if !f.wanted() {
			return
		}
		value.Set(reflect.MakeMap(value.Type()))
		key, element := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		key.SetString(fmt.Sprintf("key-%d", f.number()))
		f.fill(element)
		value.SetMapIndex(key, element)
	case reflect.String:
		if f.wanted() {
			value.SetString(f.text(value.Type()))
		}
	case reflect.Bool:
		value.SetBool(f.wanted() && f.random.Intn(4) > 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		if f.wanted() {
			value.SetInt(f.number())
		}
	default:
		panic("no value for " + value.Type().String())
	}
}

func (f *filler) wanted() bool { return f.random.Float64() < f.share }

func (f *filler) text(of reflect.Type) string {
	for _, name := range []string{of.String(), of.Name()} {
		if known := words[name]; known != nil {
			return known[f.random.Intn(len(known))]
		}
	}
	return fmt.Sprintf("text-%d", f.number())
}

// special fills a value whose type has its own JSON encoding. It returns false for all other types.
func (f *filler) special(value reflect.Value) bool {
	switch it := value.Addr().Interface().(type) {
	case *metav1.Time:
		if f.wanted() {
			*it = metav1.NewTime(time.Unix(1_700_000_000+f.number()*60, 0).UTC())
		}
	case *metav1.Duration:
		it.Duration = time.Duration(f.number()) * 1500 * time.Millisecond
	case *resource.Quantity:
		*it = resource.MustParse(fmt.Sprintf("%dMi", f.number()*512))
	case *intstr.IntOrString:
		*it = intstr.FromInt32(int32(f.number()))
	case *json.RawMessage:
		if f.wanted() {
			*it = json.RawMessage(fmt.Sprintf(`{"of":[%d,"<any>"]}`, f.number()))
		}
	default:
		return false
	}
	return true
}
