{{- /* What the server needs for its backend: flags, volumes, roles, and the checks of their values. */ -}}

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
    name: {{ $it.vcenter.configMap }}
{{- with $it.vcenter.bootstrapSecret }}
- name: bootstrap
  secret:
    secretName: {{ . }}
{{- end }}
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
{{- with $it.vcenter.secret -}}
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
  resourceNames: [{{ .Values.autoscaler.vcenter.secret }}]
  verbs: [get]
{{- end -}}

{{- /* Refuses values that do not fit the backend. */ -}}
{{- define "autoscaler.checkBackend" -}}
{{- $it := .Values.autoscaler -}}
{{- if not (has $it.backend (list "supervisor" "vcenter" "cluster-api")) }}{{ fail (printf "autoscaler.backend: %s: write supervisor, vcenter or cluster-api" (toJson $it.backend)) }}{{ end -}}
{{- if eq $it.backend "supervisor" -}}
{{- if not (has $it.supervisor.vmOperatorApiVersion (list "v1alpha5" "v1alpha6")) }}{{ fail (printf "autoscaler.supervisor.vmOperatorApiVersion: %q: write v1alpha5 or v1alpha6" $it.supervisor.vmOperatorApiVersion) }}{{ end -}}
{{- if not $it.supervisor.secret }}{{ fail "autoscaler.supervisor.secret: \"\": write the name of the Secret with the Supervisor's kubeconfig" }}{{ end -}}
{{- else if $it.supervisor.kubeconfig -}}
{{- fail (printf "autoscaler.supervisor.kubeconfig: has no effect with autoscaler.backend %s; leave it out" $it.backend) -}}
{{- end -}}
{{- if eq $it.backend "vcenter" -}}
{{- range $key := tuple "configMap" "journalConfigMap" }}
{{- if not (get $it.vcenter $key) }}{{ fail (printf "autoscaler.vcenter.%s: \"\": write the name of a ConfigMap" $key) }}{{ end -}}
{{- end -}}
{{- if and $it.vcenter.secretNamespace (not $it.vcenter.secret) }}{{ fail (printf "autoscaler.vcenter.secretNamespace: %q: has no effect without autoscaler.vcenter.secret; write the name of the Secret, or leave this out" $it.vcenter.secretNamespace) }}{{ end -}}
{{- end -}}
{{- if eq $it.backend "cluster-api" -}}
{{- $without := "has no effect with autoscaler.backend cluster-api" -}}
{{- if $it.groups }}{{ fail (printf "autoscaler.groups: %s: the groups are the MachineDeployments and MachineSets; leave it out" $without) }}{{ end -}}
{{- if $it.nodeGroups.enabled }}{{ fail (printf "autoscaler.nodeGroups.enabled: true: %s: the groups are the MachineDeployments and MachineSets; leave it out" $without) }}{{ end -}}
{{- if $it.bootstrapTokens.enabled }}{{ fail (printf "autoscaler.bootstrapTokens.enabled: true: %s, where the bootstrap provider creates tokens; leave it out" $without) }}{{ end -}}
{{- end -}}
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
{{- if and (eq $it.backend "vcenter") (hasKey $bootstrap "file") -}}
{{- $directory := include "autoscaler.bootstrapDirectory" .root -}}
{{- if not $it.vcenter.bootstrapSecret }}{{ fail (printf "%s.clone.bootstrap.file: %q: the pod has no bootstrap files; set autoscaler.vcenter.bootstrapSecret to the Secret with them" .place $bootstrap.file) }}{{ end -}}
{{- if not (regexMatch (printf "^%s/[^/]+$" $directory) (toString $bootstrap.file)) }}{{ fail (printf "%s.clone.bootstrap.file: %q: the pod has the files of autoscaler.vcenter.bootstrapSecret in %s; write %s/KEY" .place $bootstrap.file $directory $directory) }}{{ end -}}
{{- end -}}
{{- end -}}
