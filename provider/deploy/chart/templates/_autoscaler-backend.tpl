{{- /* What the server needs for its backend: flags, volumes, roles, and the checks of their values. */ -}}

{{- /* The ConfigMap with the configuration, by default that of the cloud controller manager. */ -}}
{{- define "autoscaler.configMap" -}}
{{- .Values.autoscaler.vcenter.configMap | default (include "cpi.config" . | fromYaml).name -}}
{{- end -}}

{{- /* The Secret that the configuration names, by default that of the cloud controller manager. */ -}}
{{- define "autoscaler.credentials" -}}
{{- .Values.autoscaler.vcenter.secret | default (include "cpi.config" . | fromYaml).secret.name -}}
{{- end -}}

{{- /* The directory in which a pod of a server over a vCenter finds bootstrap files. */ -}}
{{- define "autoscaler.bootstrapDirectory" -}}
/etc/autoscaler/bootstrap
{{- end -}}

{{- define "autoscaler.backendFlags" -}}
{{- $it := .Values.autoscaler -}}
{{- if eq $it.backend "vcenter" -}}
- --backend=vcenter
- --cloud-config=/etc/autoscaler/vcenter/{{ .Values.daemonset.cmdline.cloudConfig.file }}
- --journal-config-map={{ .Release.Namespace }}/{{ $it.vcenter.journalConfigMap }}
{{- if $it.nodeGroups.enabled }}
- --bootstrap-directory={{ include "autoscaler.bootstrapDirectory" . }}
{{- end }}
{{- else if eq $it.backend "cluster-api" -}}
- --backend=cluster-api
{{- if $it.clusterApi.secret }}
- --management-kubeconfig=/etc/autoscaler/management/kubeconfig
{{- end }}
{{- with $it.clusterApi.namespace }}
- --namespace={{ . }}
{{- end }}
{{- with $it.clusterApi.clusterName }}
- --cluster-name={{ . }}
{{- end }}
{{- with $it.clusterApi.reserved }}
- {{ printf "--reserved=%s" . | quote }}
{{- end }}
{{- else -}}
- --supervisor-kubeconfig=/etc/autoscaler/supervisor/kubeconfig
{{- with $it.supervisor.namespace }}
- --namespace={{ . }}
{{- end }}
- --vm-operator-api-version={{ $it.supervisor.vmOperatorApiVersion }}
{{- end }}
{{- end -}}

{{- /* The volumes of the backend, in the form of a pod's `volumes`. Each is mounted under its name in /etc/autoscaler. */ -}}
{{- define "autoscaler.backendVolumes" -}}
{{- $it := .Values.autoscaler -}}
{{- if eq $it.backend "vcenter" -}}
- name: vcenter
  configMap:
    name: {{ include "autoscaler.configMap" . }}
- name: bootstrap
  secret:
    secretName: {{ $it.vcenter.bootstrapSecret }}
{{- else if eq $it.backend "cluster-api" -}}
{{- with $it.clusterApi.secret -}}
- name: management
  secret:
    secretName: {{ . }}
{{- end }}
{{- else -}}
- name: supervisor
  secret:
    secretName: {{ $it.supervisor.secret }}
{{- end }}
{{- end -}}

{{- /* The rules of a server that changes the objects of Cluster API in this cluster. */ -}}
{{- define "autoscaler.clusterApiRules" -}}
- apiGroups: [cluster.x-k8s.io]
  resources: [machinedeployments, machinesets]
  verbs: [get, list, watch, patch]
- apiGroups: [cluster.x-k8s.io]
  resources: [machinedeployments/scale, machinesets/scale]
  verbs: [get, patch]
- apiGroups: [cluster.x-k8s.io]
  resources: [machines]
  verbs: [get, list, watch, patch, delete]
# Templates and machines of the infrastructure.
- apiGroups: [infrastructure.cluster.x-k8s.io, vmware.infrastructure.cluster.x-k8s.io]
  resources: [vspheremachinetemplates, vspheremachines]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- /* True if the server changes the objects of Cluster API in this cluster. */ -}}
{{- define "autoscaler.isManagementCluster" -}}
{{- if and (eq .Values.autoscaler.backend "cluster-api") (not .Values.autoscaler.clusterApi.secret) }}yes{{ end -}}
{{- end -}}

{{- /* The Role and RoleBinding of the backend in one namespace, if it needs them. */ -}}
{{- define "autoscaler.backendRoles" -}}
{{- $it := .Values.autoscaler -}}
{{- $roles := list -}}
{{- if eq $it.backend "vcenter" -}}
{{- $roles = append $roles (dict "name" "vsphere-autoscaler-journal" "namespace" .Release.Namespace "rules" (include "autoscaler.journalRules" .)) -}}
{{- $roles = append $roles (dict "name" "vsphere-autoscaler-events" "namespace" "default" "rules" (include "autoscaler.eventRules" .)) -}}
{{- if $it.vcenter.credentialsInSecret -}}
{{- $roles = append $roles (dict "name" "vsphere-autoscaler-vcenter" "namespace" ($it.vcenter.secretNamespace | default $.Release.Namespace) "rules" (include "autoscaler.vcenterRules" $)) -}}
{{- end -}}
{{- else if and (include "autoscaler.isManagementCluster" .) $it.clusterApi.namespace -}}
{{- $roles = append $roles (dict "name" "vsphere-autoscaler-cluster-api" "namespace" $it.clusterApi.namespace "rules" (include "autoscaler.clusterApiRules" .)) -}}
{{- end -}}
{{- range $roles }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels: {{- include "autoscaler.labels" $ | nindent 4 }}
rules: {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels: {{- include "autoscaler.labels" $ | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: vsphere-autoscaler
    namespace: {{ $.Release.Namespace }}
{{- end }}
{{- end -}}

{{- define "autoscaler.journalRules" -}}
# RBAC cannot restrict `create` with POST to a name.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ .Values.autoscaler.vcenter.journalConfigMap }}]
  verbs: [get, update]
{{- end -}}

{{- define "autoscaler.vcenterRules" -}}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "autoscaler.credentials" . }}]
  verbs: [get]
{{- end -}}

{{- /* Events about machines that become Nodes are in the namespace `default`. */ -}}
{{- define "autoscaler.eventRules" -}}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- /* Refuses values that do not fit the backend. */ -}}
{{- define "autoscaler.checkBackend" -}}
{{- $it := .Values.autoscaler -}}
{{- if not (has $it.backend (list "supervisor" "vcenter" "cluster-api")) }}{{ fail (printf "autoscaler.backend: %s: write supervisor, vcenter or cluster-api" (toJson $it.backend)) }}{{ end -}}
{{- include "autoscaler.checkOtherBackends" $it -}}
{{- if eq $it.backend "supervisor" -}}
{{- if not (has $it.supervisor.vmOperatorApiVersion (list "v1alpha5" "v1alpha6")) }}{{ fail (printf "autoscaler.supervisor.vmOperatorApiVersion: %q: write v1alpha5 or v1alpha6" $it.supervisor.vmOperatorApiVersion) }}{{ end -}}
{{- if not $it.supervisor.secret }}{{ fail "autoscaler.supervisor.secret: \"\": write the name of the Secret with the Supervisor's kubeconfig" }}{{ end -}}
{{- end -}}
{{- if eq $it.backend "vcenter" -}}
{{- if not (kindIs "bool" $it.vcenter.credentialsInSecret) }}{{ fail (printf "autoscaler.vcenter.credentialsInSecret: %s: write true or false" (toJson $it.vcenter.credentialsInSecret)) }}{{ end -}}
{{- range $key := tuple "secret" "secretNamespace" }}
{{- $value := get $it.vcenter $key -}}
{{- if and $value (not $it.vcenter.credentialsInSecret) }}{{ fail (printf "autoscaler.vcenter.%s: %q: has no effect with autoscaler.vcenter.credentialsInSecret=false; set that to true, or leave this out" $key $value) }}{{ end -}}
{{- end -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" (toString $it.vcenter.journalConfigMap)) }}{{ fail (printf "autoscaler.vcenter.journalConfigMap: %s: write a name of lower-case letters, digits and dashes" (toJson $it.vcenter.journalConfigMap)) }}{{ end -}}
{{- if not $it.vcenter.bootstrapSecret }}{{ fail "autoscaler.vcenter.bootstrapSecret: \"\": write the name of the Secret with the bootstrap files" }}{{ end -}}
{{- if and .Values.cloudControllerManager.enabled (eq .Values.mode "supervisor") (not $it.vcenter.configMap) }}{{ fail "autoscaler.vcenter.configMap: \"\": with mode=supervisor the configuration of the cloud controller manager names no vCenter; write the name of another ConfigMap" }}{{ end -}}
{{- end -}}
{{- if eq $it.backend "cluster-api" -}}
{{- $without := "has no effect with autoscaler.backend cluster-api" -}}
{{- if $it.groups }}{{ fail (printf "autoscaler.groups: %s: the groups are the MachineDeployments and MachineSets; leave it out" $without) }}{{ end -}}
{{- if $it.nodeGroups.enabled }}{{ fail (printf "autoscaler.nodeGroups.enabled: true: %s: the groups are the MachineDeployments and MachineSets; leave it out" $without) }}{{ end -}}
{{- if $it.bootstrapTokens.enabled }}{{ fail (printf "autoscaler.bootstrapTokens.enabled: true: %s, where the bootstrap provider creates tokens; leave it out" $without) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* Refuses values of the other backends that differ from their defaults. */ -}}
{{- define "autoscaler.checkOtherBackends" -}}
{{- $it := . -}}
{{- range $section, $defaults := dict
  "supervisor" (dict "secret" "vsphere-autoscaler-supervisor" "kubeconfig" "" "namespace" "" "vmOperatorApiVersion" "v1alpha5")
  "vcenter" (dict "configMap" "" "credentialsInSecret" true "secret" "" "secretNamespace" "" "journalConfigMap" "vsphere-autoscaler-journal" "bootstrapSecret" "vsphere-autoscaler-bootstrap")
  "clusterApi" (dict "secret" "" "namespace" "" "clusterName" "" "reserved" "") }}
{{- if ne (lower $section) (replace "-" "" $it.backend) }}
{{- range $key, $default := $defaults }}
{{- if ne (toString (get (get $it $section) $key)) (toString $default) }}{{ fail (printf "autoscaler.%s.%s: has no effect with autoscaler.backend %s; leave it out" $section $key $it.backend) }}{{ end -}}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Refuses a group whose machines are of another backend. `place` is the group's path, `group` the group, `root` the whole input. */ -}}
{{- define "autoscaler.checkMachine" -}}
{{- $it := .root.Values.autoscaler -}}
{{- $key := ternary "clone" "machine" (eq $it.backend "vcenter") -}}
{{- $other := ternary "machine" "clone" (eq $it.backend "vcenter") -}}
{{- if hasKey .group $other }}{{ fail (printf "%s.%s: has no effect with autoscaler.backend %s; write %s instead" .place $other $it.backend $key) }}{{ end -}}
{{- if not (hasKey .group $key) }}{{ fail (printf "%s.%s: missing: every group needs it; docs/autoscaler.md describes the keys" .place $key) }}{{ end -}}
{{- $machine := get .group $key -}}
{{- if not (kindIs "map" $machine) }}{{ fail (printf "%s.%s: %s: write a map; docs/autoscaler.md describes the keys" .place $key (toJson $machine)) }}{{ end -}}
{{- $bootstrap := default dict (get $machine "bootstrap") -}}
{{- if and (hasKey $bootstrap "token") (not $it.bootstrapTokens.enabled) }}{{ fail (printf "%s.%s.bootstrap.token: the server lacks the roles for bootstrap tokens; set autoscaler.bootstrapTokens.enabled to true" .place $key) }}{{ end -}}
{{- if eq $it.backend "vcenter" -}}
{{- $directory := include "autoscaler.bootstrapDirectory" .root -}}
{{- if not (regexMatch (printf "^%s/[^/]+$" $directory) (toString $bootstrap.file)) }}{{ fail (printf "%s.clone.bootstrap.file: %s: the pod has the files of autoscaler.vcenter.bootstrapSecret in %s; write %s/KEY" .place (toJson $bootstrap.file) $directory $directory) }}{{ end -}}
{{- end -}}
{{- end -}}
