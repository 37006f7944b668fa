package main

// whole turns one of the cases below into a complete object: it adds apiVersion, kind, and the required metadata.
func whole(version, kind, text string) []byte {
	document := parse([]byte(text))
	document["apiVersion"] = group + "/" + version
	document["kind"] = kind
	metadata, _ := document["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{"generation": 1}
		document["metadata"] = metadata
	}
	metadata["name"] = "written"
	if kind != "ClusterVirtualMachineImage" {
		metadata["namespace"] = "vms"
	}
	return print(document)
}

// written returns the handwritten objects of a kind and version: objects as people and programs write them, and edge cases.
func written(kind, version string) []string {
	if kind == "VirtualMachine" && version > "v1alpha1" && version < hub {
		return append(newerMachines, cases[version+" VirtualMachine"]...)
	}
	return cases[version+" "+kind]
}

// capv is the spec of a machine as Cluster API writes it, with the values that the VM Operator adds.
const capv = `"imageName":"vmi-0123456789abcdef0","className":"guaranteed-medium","storageClass":"gold","powerState":"PoweredOn",
	"powerOffMode":"Hard","minHardwareVersion":15,"reserved":{"resourcePolicyName":"one"},
	"bootstrap":{"cloudInit":{"rawCloudConfig":{"name":"one-bootstrap","key":"user-data"}}},
	"readinessProbe":{"tcpSocket":{"port":6443}},
	"network":{"interfaces":[{"name":"eth0","network":{"apiVersion":"netoperator.vmware.com/v1alpha1","kind":"Network","name":"primary"}}]},
	"volumes":[{"name":"etcd","persistentVolumeClaim":{"claimName":"one-etcd"}}]`

const running = `"status":{"powerState":"PoweredOn","biosUUID":"421a7c0e-1111-4222-8333-abcdefabcdef","instanceUUID":"501a7c0e-1111-4222-8333-abcdefabcdef",
	"uniqueID":"vm-42","zone":"zone-a","hardwareVersion":19,
	"network":{"primaryIP4":"10.0.0.5","primaryIP6":"fd00::5","hostName":"one-1","interfaces":[{"name":"eth0","deviceKey":4000,
		"ip":{"macAddr":"00:50:56:aa:bb:cc","addresses":[{"address":"10.0.0.5/24","state":"preferred"},{"address":"fd00::5/64"}]}},{"name":"eth1"}]},
	"volumes":[{"name":"etcd","attached":true,"diskUUID":"6000c29a","type":"Managed"},{"name":"boot","type":"Classic","limit":"20Gi"}],
	"conditions":[{"type":"VirtualMachineClassReady","status":"True","reason":"True","message":"","lastTransitionTime":"2026-03-01T08:00:00Z"},
		{"type":"VirtualMachineImageReady","status":"True","reason":"True","message":"","lastTransitionTime":"2026-03-01T08:00:01Z"},
		{"type":"VirtualMachineCreated","status":"True","reason":"True","message":"","lastTransitionTime":"2026-03-01T08:00:02Z","observedGeneration":1}]`

// newerMachines are the handwritten machines for every version from v1alpha2 on, except the hub.
var newerMachines = []string{
	`{"spec":{` + capv + `},` + running + `}}`,
	`{"metadata":{},"spec":{` + capv + `}}`,
	`{"metadata":{"generation":1,"annotations":{"vmoperator.vmware.com/paused":"p","vmoperator.vmware.com/pause-reconcile":"r"}},
		"spec":{"network":{"interfaces":[{"name":"eth0","dhcp4":true,"dhcp6":false}]}},
		"status":{"volumes":[{"name":"a"}]}}`,
	`{"metadata":{"annotations":{"vmoperator.vmware.com/conversion":"{"}}}`,
	`{"metadata":{"annotations":{"vmoperator.vmware.com/conversion":"{\"spec\":{\"powerState\":5}}"}}}`,
	`{"metadata":{"annotations":{"vmoperator.vmware.com/conversion":"{}"}},"spec":{"className":"small","affinity":{},"network":{}}}`,
}

var cases = map[string][]string{
	"v1alpha6 VirtualMachine": append([]string{
		`{"metadata":{"generation":2,"annotations":{"note":"EDITED"}},"spec":{` + capv + `,"image":{"kind":"VirtualMachineImage","name":"vmi-0123456789abcdef0"}},` + running + `,"nodeName":"esx-1"}}`,
		`{"metadata":{"generation":1,"annotations":{"note":"EDITED"}},"spec":{"image":{"kind":"ClusterVirtualMachineImage","name":"cvmi"},"powerState":"Suspended","suspendMode":"TrySoft",
			"network":{"domainName":"a.example","hostName":"h","nameservers":["10.0.0.1"],"vlans":[{"name":"v","id":5,"link":"eth0"}],
				"interfaces":[{"name":"eth0","dhcp4":false,"dhcp6":true,"ipamModes":["IPv4"],"vnumaNodeID":0},
				{"name":"eth1","network":{"apiVersion":"crd.nsx.vmware.com/v1alpha1","kind":"SubnetSet","name":"s"}},
				{"name":"eth2","network":{"kind":"Subnet","apiVersion":"crd.nsx.vmware.com/v1alpha1","name":"t"},"mtu":9000},
				{"name":"eth3","network":{"kind":"VirtualNetwork","name":"u"}}]},
			"bootstrap":{"sysprep":{"sysprep":{"userData":{"fullName":"f","orgName":"o"},"identification":{"domainAdmin":"a"},"expirePasswordAfterNextLogin":true},"customizeAtNextPowerOn":false},
				"vAppConfig":{"rawProperties":"props"}},
			"advanced":{"bootDiskCapacity":"20480Mi","defaultVolumeProvisioningMode":"Thin","changeBlockTracking":false,"vmxSwapEnabled":false},
			"hardware":{"cdrom":[{"name":"cd0","image":{"kind":"VirtualMachineImage","name":"iso"},"controllerType":"SATA","controllerBusNumber":0,"unitNumber":1},
				{"name":"cd1","image":{"kind":"VirtualMachineImage","name":"iso2"}}]},
			"volumes":[{"name":"a","persistentVolumeClaim":{"claimName":"a"},"unitNumber":3},{"name":"b","controllerType":"SCSI","controllerBusNumber":0,"unitNumber":1},{"name":"c"}],
			"readinessProbe":{"guestInfo":[{"key":"k","value":"v"}]},"crypto":{"vTPMMode":"Enabled"},"policies":[{"apiVersion":"a/v1","kind":"P","name":"p"}]}}`,
		`{"metadata":{},"spec":{"bootstrap":{"linuxPrep":{"hardwareClockIsUTC":true,"timeZone":"UTC"}},"readinessProbe":{},"advanced":{},"network":{},"reserved":{}}}`,
		`{"spec":{"bootstrap":{"disabled":true},"readinessProbe":{"guestInfo":[{"key":"k"}]},"advanced":{"bootDiskCapacity":"1Gi"}}}`,
		`{"spec":{"bootstrap":{},"advanced":{"defaultVolumeProvisioningMode":"ThickEagerZero"},"hardware":{},"affinity":{},"network":{"disabled":true}}}`,
		`{"spec":{"bootstrap":{"linuxPrep":{},"vAppConfig":{"properties":[{"key":"k","value":{"value":"v"}}]}},"advanced":{"defaultVolumeProvisioningMode":"Thick"}}}`,
		`{"metadata":{"annotations":{"vmoperator.vmware.com/v1a1-configmap-md-transport":"true"}},"spec":{"bootstrap":{"vAppConfig":{"rawProperties":"map"}}}}`,
		`{"spec":{"bootstrap":{"cloudInit":{"instanceID":"i","rawCloudConfig":{"name":"n","key":"guestinfo.userdata"}}}}}`,
		`{"spec":{"bootstrap":{"cloudInit":{"waitOnNetwork4":false,"sshAuthorizedKeys":["ssh-rsa <a>&b\u2028"],"rawCloudConfig":{"name":"n","key":"other"}}}}}`,
		`{"spec":{"bootstrap":{"cloudInit":{"instanceID":"i"}}}}`,
		`{"spec":{"bootstrap":{"sysprep":{"rawSysprep":{"name":"n","key":"k"}}}}}`,
		`{"metadata":{"annotations":{"vmoperator.vmware.com/paused":"yes"}},"status":{"storage":{"total":"3Gi","requested":{"disks":"1Gi"},"usage":{"disks":"1Gi","other":"2Gi"}}}}`,
		`{"status":{"storage":{"usage":{"disks":"1Gi"}},"network":{"primaryIP6":"fd00::1"}}}`,
		`{"status":{"network":{},"conditions":[{"type":"VirtualMachineCreated","status":"False","reason":"R","message":"m","lastTransitionTime":null}]}}`,
	}, conditions...),

	"v1alpha1 VirtualMachine": {
		`{"spec":{"imageName":"vmi-0","className":"small","powerState":"poweredOn","resourcePolicyName":"one","vmMetadata":{"configMapName":"one-config","transport":"ExtraConfig"},
			"networkInterfaces":[{"networkName":"primary","networkType":"vsphere-distributed"},{"networkType":"nsx-t"},{"networkName":"s","networkType":"nsx-t-subnetset"},
				{"networkName":"t","networkType":"nsx-t-subnet","ethernetCardType":"vmxnet3"},{"networkName":"u","networkType":"other"},{}],
			"volumes":[{"name":"etcd","persistentVolumeClaim":{"claimName":"one-etcd"}},{"name":"boot","vSphereVolume":{"capacity":{"ephemeral-storage":"20480Mi"},"deviceKey":2000}}],
			"advancedOptions":{"defaultVolumeProvisioningOptions":{"thinProvisioned":false},"changeBlockTracking":true},"ports":[{"port":22,"ip":"","name":"ssh","protocol":"TCP"}]},
			"status":{"host":"esx-1","hostName":"one-1","powerState":"suspended","phase":"Created","vmIp":"10.0.0.5","networkInterfaces":[{"connected":true,"macAddress":"00:50:56:aa:bb:cc","ipAddresses":["10.0.0.5","fd00::5"]},{"connected":false}],
				"volumes":[{"name":"etcd","attached":true,"diskUUID":"6000c29a","error":""}],"conditions":[{"type":"VirtualMachineToolsReady","status":"Unknown"}]}}`,
		`{"metadata":{},"spec":{"imageName":"vmi-0","className":"small","vmMetadata":{"secretName":"one","configMapName":"two","transport":"CloudInit"},"readinessProbe":{},"advancedOptions":{}},
			"status":{"vmIp":"fd00::5","hostName":"h"}}`,
		`{"metadata":{"generation":1,"annotations":{"vmoperator.vmware.com/paused":"p","vmoperator.vmware.com/pause-reconcile":"r"}},
			"spec":{"vmMetadata":{"secretName":"one","transport":"OvfEnv"},"advancedOptions":{"defaultVolumeProvisioningOptions":{"eagerZeroed":true}}},"status":{"vmIp":"::ffff:10.0.0.5"}}`,
		`{"spec":{"vmMetadata":{"transport":"vAppConfig"},"advancedOptions":{"defaultVolumeProvisioningOptions":{"thinProvisioned":true,"eagerZeroed":true}},"powerOffMode":"trySoft","suspendMode":"soft","restartMode":"hard"}}`,
		`{"spec":{"vmMetadata":{"secretName":"one","transport":"Sysprep"},"advancedOptions":{"defaultVolumeProvisioningOptions":{"eagerZeroed":false}},"powerState":"strange"}}`,
		`{"spec":{"vmMetadata":{"secretName":"one"},"volumes":[{"name":"boot","vSphereVolume":{"deviceKey":2000}}]},"status":{"vmIp":"nonsense"}}`,
		`{"spec":{"vmMetadata":{"transport":"Sysprep"},"volumes":[{"name":"data","vSphereVolume":{"capacity":{"ephemeral-storage":"1Gi"},"deviceKey":2001}}]},"status":{"networkInterfaces":[{"connected":true}]}}`,
		`{"spec":{"resourcePolicyName":"r","vmMetadata":{"secretName":"s","transport":"CloudInit"}},"status":{"conditions":[{"type":"VirtualMachinePrereqReady","status":"True","lastTransitionTime":"2026-03-01T08:00:00Z"}]}}`,
		`{"status":{"conditions":[{"type":"VirtualMachinePrereqReady","status":"True","lastTransitionTime":"2026-03-01T08:00:00Z"},{"type":"Other","status":"False","reason":"VirtualMachineImageNotFound","lastTransitionTime":"2026-03-01T09:00:00Z"}]}}`,
		`{"spec":{"resourcePolicyName":"r","vmMetadata":{"secretName":"s","transport":"CloudInit"}},"status":{"conditions":[{"type":"VirtualMachinePrereqReady","status":"False","reason":"VirtualMachineClassNotFound","severity":"Error","message":"m"}]}}`,
		`{"status":{"conditions":[{"type":"Other","status":"True"},{"type":"VirtualMachinePrereqReady","status":"False","reason":"VirtualMachineClassBindingNotFound"}]}}`,
		`{"status":{"conditions":[{"type":"VirtualMachinePrereqReady","status":"False","reason":"ContentSourceBindingNotFound"}]}}`,
		`{"status":{"conditions":[{"type":"VirtualMachinePrereqReady","status":"False","reason":"ContentLibraryProviderNotFound"}]}}`,
		`{"status":{"conditions":[{"type":"VirtualMachinePrereqReady","status":"False","reason":"VirtualMachineImageNotReady"}]}}`,
		`{"spec":{"resourcePolicyName":"r"},"status":{"conditions":[{"type":"VirtualMachinePrereqReady","status":"False","reason":"Else"}]}}`,
		`{"status":{"conditions":[{"type":"VirtualMachinePrereqReady","status":"Unknown"}]}}`,
		`{"status":{"conditions":[{"type":"VirtualMachineClassReady","status":"True"},{"type":"VirtualMachinePrereqReady","status":"True"}]}}`,
		`{"metadata":{"annotations":{"vmoperator.vmware.com/conversion":"no JSON"}}}`,
		`{"metadata":{"annotations":{"vmoperator.vmware.com/conversion":"{}"}},"status":{"conditions":[{"type":"VirtualMachinePrereqReady","status":"True"}]}}`,
	},
	"v1alpha2 VirtualMachine": {
		`{"spec":{"imageName":"old","bootstrap":{"sysprep":{"sysprep":{"guiRunOnce":{"commands":["a"]},"identification":{"joinDomain":"b.example"}}}}},"status":{"host":"esx-1","image":{"apiVersion":"a/v1","kind":"VirtualMachineImage","name":"vmi"}}}`,
		`{"metadata":{},"spec":{"imageName":"old","bootstrap":{"sysprep":{"sysprep":{"identification":{"joinDomain":"b.example"}}}},"network":{"hostName":"h"}},"status":{"image":{"apiVersion":"","kind":"","name":"vmi"}}}`,
		`{"spec":{"imageName":"old"},"status":{"image":{"apiVersion":"","kind":"","name":"vmi"}}}`,
	},
	"v1alpha3 VirtualMachine": {
		`{"spec":{"cdrom":[{"name":"cd0","image":{"kind":"VirtualMachineImage","name":"iso"},"connected":false}]},"status":{"host":"esx-1","storage":{"usage":{"total":"3Gi","disks":"1Gi","other":"2Gi"}}}}`,
		`{"status":{"storage":{"usage":{}}}}`,
		`{"status":{"storage":{}}}`,
	},
	"v1alpha4 VirtualMachine": {
		`{"spec":{"cdrom":[{"name":"cd0","image":{"kind":"VirtualMachineImage","name":"iso"}}]},"status":{"nodeName":"esx-1","storage":{"total":"3Gi","usage":{"other":"2Gi"}}}}`,
	},

	"v1alpha6 VirtualMachineService": {
		`{"metadata":{"generation":1,"annotations":{"note":"EDITED"}},"spec":{"type":"LoadBalancer","ports":[{"name":"apiserver","protocol":"TCP","port":6443,"targetPort":6443}],"selector":{"a":"b"},
			"ipFamilies":["IPv6","IPv4"],"ipFamilyPolicy":"RequireDualStack"},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]},"conditions":[{"type":"Ready","status":"True","reason":"R","message":"","lastTransitionTime":"2026-03-01T08:00:00Z"}]}}`,
		`{"spec":{"type":"ClusterIP","ports":[],"selector":{}}}`,
	},
	"v1alpha2 VirtualMachineService": {
		`{"spec":{"type":"LoadBalancer","ports":[{"name":"a","protocol":"TCP","port":1,"targetPort":2}],"clusterIp":"10.0.0.1"},"status":{"loadBalancer":{"ingress":[{"hostname":"lb"}]}}}`,
		`{"metadata":{"annotations":{"vmoperator.vmware.com/conversion":"["}}}`,
	},
	"v1alpha6 VirtualMachineClass": {
		`{"spec":{"hardware":{"cpus":2,"memory":"4096Mi"},"policies":{"resources":{"requests":{"cpu":"1500u"},"limits":{"memory":"0.5Gi"}}},"configSpec":{"a":{"b":null}}}}`,
		`{"metadata":{"annotations":{"vmoperator.vmware.com/conversion":"kept"}}}`,
	},
	"v1alpha6 VirtualMachineImage":        hubImages,
	"v1alpha1 VirtualMachineImage":        firstImages,
	"v1alpha6 ClusterVirtualMachineImage": hubImages,
	"v1alpha1 ClusterVirtualMachineImage": firstImages,
	"v1alpha3 VirtualMachineImage": {
		`{"status":{"name":"photon","disks":[{"capacity":"20Gi","size":"2Gi"}]}}`,
	},
	"v1alpha6 VirtualMachineSetResourcePolicy": {
		`{"spec":{"resourcePool":{"name":"one","reservations":{"cpu":"1000m"},"limits":{}},"folder":"one","clusterModuleGroups":["control-plane-group","one-workers-0"]},
			"status":{"resourcePools":[{"clusterMoID":"domain-c1","childResourcePoolMoID":"resgroup-2"}],"clustermodules":[{"groupName":"g","moduleUUID":"u","clusterMoID":"c"}]}}`,
	},
	"v1alpha1 VirtualMachineSetResourcePolicy": {
		`{"spec":{"resourcepool":{"name":"one"},"folder":{"name":"one"},"clustermodules":[{"groupname":"a"},{"groupname":""}]},"status":{"clustermodules":[{"groupname":"g","moduleUUID":"u","clusterMoID":"c"}]}}`,
		`{"spec":{"folder":{}}}`,
	},
	"v1alpha6 VirtualMachineGroup": {
		`{"metadata":{"generation":1,"annotations":{"note":"EDITED"}},"spec":{"groupName":"all","powerState":"PoweredOn","bootOrder":[{"members":[{"kind":"VirtualMachine","name":"a"}],"powerOnDelay":"90s","powerOffDelay":"1h"},
			{"members":[{"kind":"VirtualMachine","name":"b"}],"powerOffDelay":"1.5ms"},{"powerOnDelay":"0s","powerOffDelay":"-2m0.25s"}]}}`,
	},
}

// conditions are machines in the newest version whose conditions the oldest version combines into one.
var conditions = func() (out []string) {
	one := func(kind, status, reason string) string {
		return `{"type":"` + kind + `","status":"` + status + `","reason":"` + reason + `","message":"m","lastTransitionTime":"2026-03-01T08:00:00Z"}`
	}
	for _, list := range []string{
		one("VirtualMachineClassReady", "False", "R"),
		one("VirtualMachineClassReady", "True", "R") + "," + one("VirtualMachineImageReady", "False", "R"),
		one("VirtualMachineClassReady", "True", "R") + "," + one("VirtualMachineImageReady", "True", "R") + "," + one("VirtualMachineBootstrapReady", "False", "R"),
		one("VirtualMachineClassReady", "True", "R") + "," + one("VirtualMachineImageReady", "True", "R") + "," +
			one("VirtualMachineConditionVMSetResourcePolicyReady", "True", "R") + "," + one("VirtualMachineBootstrapReady", "True", "R"),
		one("VirtualMachinePrereqReady", "False", "R") + "," + one("VirtualMachineClassReady", "True", "R") + "," + one("VirtualMachineImageReady", "True", "R"),
		one("VirtualMachinePrereqReady", "False", "R") + "," + one("VirtualMachineClassReady", "False", "R"),
	} {
		out = append(out, `{"status":{"conditions":[`+list+`]}}`)
	}
	return out
}()

var hubImages = []string{
	`{"metadata":{"annotations":{"vmoperator.vmware.com/conversion-content-lib-ref":"{\"apiGroup\":\"g\",\"kind\":\"ContentLibrary\",\"name\":\"l\"}"}},
		"spec":{"providerRef":{"apiVersion":"imageregistry.vmware.com/v1alpha1","kind":"ContentLibraryItem","name":"clitem-1"}},
		"status":{"name":"photon","capabilities":["cloud-init"],"firmware":"efi","hardwareVersion":15,"osInfo":{"id":"101","type":"vmwarePhoton64Guest","version":"5"},
			"ovfProperties":[{"key":"a","type":"string","default":"x"},{"key":"b","type":"boolean"}],"vmwareSystemProperties":[{"key":"vmware-system.x","value":"y"}],
			"productInfo":{"product":"p","vendor":"v","version":"1","fullVersion":"1.2"},"disks":[{"name":"d","limit":"20Gi","requested":"2Gi"}],"providerContentVersion":"1","providerItemID":"id","type":"OVF",
			"conditions":[{"type":"Other","status":"True","reason":"R","message":"","lastTransitionTime":"2026-03-01T08:00:00Z"},{"type":"Ready","status":"True","reason":"R","message":"","lastTransitionTime":"2026-03-01T08:00:01Z"}]}}`,
	`{"metadata":{"annotations":{"vmoperator.vmware.com/conversion-content-lib-ref":"no JSON"}},"spec":{"providerRef":{"kind":"ContentLibraryItem"}}}`,
	`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"VirtualMachineImageProviderSecurityNotCompliant","message":"m","lastTransitionTime":"2026-03-01T08:00:00Z"}]}}`,
	`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"VirtualMachineImageProviderNotReady","message":"m","lastTransitionTime":"2026-03-01T08:00:00Z"}]}}`,
	`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"VirtualMachineImageNotSynced","message":"m","lastTransitionTime":"2026-03-01T08:00:00Z"}]}}`,
	`{"status":{"conditions":[{"type":"Other","status":"False","reason":"R","message":"m","lastTransitionTime":"2026-03-01T08:00:00Z"}]}}`,
}

var firstImages = []string{
	`{"metadata":{"annotations":{"vmware-system.x":"1","vmware-system-y":"2","other":"3"}},"spec":{"type":"ovf","imageSourceType":"content_library","imageID":"id","providerRef":{"apiVersion":"a/v1","kind":"ContentLibraryItem","name":"clitem-1","namespace":"else"},
		"osInfo":{"type":"t","version":"5"},"productInfo":{"product":"p"},"ovfEnv":{"b":{"key":"b","type":"string","default":""},"a":{"key":"c","type":"int","label":"l"}},"hwVersion":15},
		"status":{"uuid":"u","internalId":"i","powerState":"p","imageName":"photon","imageSupported":true,"contentLibraryRef":{"apiGroup":"g","kind":"k","name":"n"},"contentVersion":"1",
			"conditions":[{"type":"VirtualMachineImageSynced","status":"True","lastTransitionTime":"2026-03-01T08:00:00Z"},{"type":"VirtualMachineImageProviderReady","status":"True","lastTransitionTime":"2026-03-01T09:00:00Z"}]}}`,
	`{"status":{"conditions":[{"type":"Other","status":"False"},{"type":"VirtualMachineImageSynced","status":"False","reason":"R","message":"m","lastTransitionTime":"2026-03-01T08:00:00Z"}]}}`,
	`{"status":{"conditions":[{"type":"VirtualMachineImageProviderSecurityCompliance","status":"False"}]}}`,
	`{"spec":{"providerRef":{"kind":"","name":"","namespace":"n"}},"status":{"conditions":[{"type":"VirtualMachineImageSynced","status":"True"}]}}`,
}
