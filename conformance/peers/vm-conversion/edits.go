package main

import "github.com/vmware-tanzu/vm-operator/api/utilconversion"

type edit = func(map[string]any)

// editsOf returns the edits that a client which writes this version could make to an object after reading it. Most of them
// keep the annotation with the hub's object.
func editsOf(kind, version string) []edit {
	out := []edit{
		func(it map[string]any) { delete(it, "status") },
		func(it map[string]any) { delete(it, "spec") },
		func(it map[string]any) { annotations(it)[utilconversion.AnnotationKey] = "{" },
	}
	switch kind {
	case "VirtualMachineService":
		out = append(out, set("loadBalancerIP", "192.0.2.9"))
	case "VirtualMachineGroup":
		out = append(out, firstGone("bootOrder"), set("powerState", "PoweredOff"),
			func(it map[string]any) { spec(it)["bootOrder"] = append(list(it, "bootOrder"), map[string]any{}) })
	case "VirtualMachine":
		out = append(out, machineEdits(version)...)
	}
	return out
}

func machineEdits(version string) []edit {
	out := []edit{set("className", "other"), set("imageName", "other"), firstGone("volumes")}
	for _, field := range []string{"volumes", "readinessProbe", "minHardwareVersion"} {
		out = append(out, gone(field))
	}
	volume := map[string]any{"name": "new", "persistentVolumeClaim": map[string]any{"claimName": "new"}}
	out = append(out, func(it map[string]any) { spec(it)["volumes"] = append(list(it, "volumes"), volume) })
	if version == "v1alpha1" {
		metadata := map[string]any{"secretName": "other", "transport": "CloudInit"}
		return append(out, gone("vmMetadata"), gone("networkInterfaces"), gone("advancedOptions"), firstGone("networkInterfaces"),
			set("powerState", "poweredOff"), set("resourcePolicyName", ""), set("vmMetadata", metadata),
			set("vmMetadata", map[string]any{"secretName": "other", "transport": "Sysprep"}),
			set("vmMetadata", map[string]any{"configMapName": "other", "transport": "OvfEnv"}))
	}
	for _, field := range []string{"bootstrap", "network", "advanced", "crypto", "affinity", "reserved"} {
		out = append(out, gone(field), set(field, map[string]any{}))
	}
	if version > "v1alpha2" {
		image := map[string]any{"kind": "VirtualMachineImage", "name": "other"}
		out = append(out, set("image", image), gone("image"))
	}
	if version == "v1alpha3" || version == "v1alpha4" {
		drive := map[string]any{"name": "new", "image": map[string]any{"kind": "VirtualMachineImage", "name": "iso"}}
		out = append(out, gone("cdrom"), firstGone("cdrom"), set("cdrom", []any{drive}),
			func(it map[string]any) { spec(it)["cdrom"] = append(list(it, "cdrom"), drive) })
	}
	return append(out, set("powerState", "PoweredOff"),
		within("network", firstGoneOf("interfaces")), within("network", func(it map[string]any) { delete(it, "interfaces") }),
		within("network", func(it map[string]any) {
			for _, one := range listOf(it, "interfaces") {
				one.(map[string]any)["dhcp4"] = true
				delete(one.(map[string]any), "dhcp6")
			}
		}),
		within("network", func(it map[string]any) {
			for _, one := range listOf(it, "interfaces") {
				one.(map[string]any)["name"] = "same"
			}
		}),
		within("bootstrap", func(it map[string]any) { delete(it, "cloudInit") }),
		within("bootstrap", func(it map[string]any) { delete(it, "linuxPrep") }),
		within("bootstrap", func(it map[string]any) { delete(it, "sysprep") }),
		within("bootstrap", func(it map[string]any) {
			if sysprep, ok := it["sysprep"].(map[string]any); ok {
				delete(sysprep, "sysprep")
			}
		}))
}

func spec(it map[string]any) map[string]any {
	spec, _ := it["spec"].(map[string]any)
	return spec
}

func listOf(it map[string]any, field string) []any {
	list, _ := it[field].([]any)
	return list
}

func list(it map[string]any, field string) []any { return listOf(spec(it), field) }

func set(field string, value any) edit {
	return func(it map[string]any) { spec(it)[field] = value }
}

func gone(field string) edit {
	return func(it map[string]any) { delete(spec(it), field) }
}

func firstGone(field string) edit {
	return func(it map[string]any) { firstGoneOf(field)(spec(it)) }
}

func firstGoneOf(field string) edit {
	return func(it map[string]any) {
		if list := listOf(it, field); len(list) > 0 {
			it[field] = list[1:]
		}
	}
}

// within returns an edit that applies `edit` to a field of the specification, if the object has that field.
func within(field string, edit edit) edit {
	return func(it map[string]any) {
		if part, ok := spec(it)[field].(map[string]any); ok {
			edit(part)
		}
	}
}
