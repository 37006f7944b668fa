{{- define "autoscaler.labels" -}}
app: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
component: autoscaler
tier: control-plane
{{- end -}}

{{- /* Permissions of the server for NodeGroups. */ -}}
{{- define "autoscaler.groupRules" -}}
- apiGroups: [vsphere.cloud-provider]
  resources: [nodegroups]
  verbs: [list, watch]
- apiGroups: [vsphere.cloud-provider]
  resources: [nodegroups/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- /* The server's name in the cluster, which its certificate contains. */ -}}
{{- define "autoscaler.host" -}}
vsphere-autoscaler.{{ .Release.Namespace }}.svc
{{- end -}}

{{- /* Prints flags, sorted by name: one --NAME=VALUE, or one for each element of a list. */ -}}
{{- define "autoscaler.flags" -}}
{{- range $name, $value := . }}
{{- range $one := kindIs "slice" $value | ternary $value (list $value) }}
- {{ printf "--%s=%s" $name (include "autoscaler.text" $one) | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* A number of a values file is a float, which prints large whole numbers with an exponent. */ -}}
{{- define "autoscaler.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ toString . }}{{ end -}}
{{- end -}}

{{- /* Where a pod runs. It tolerates the taint of the control plane and prefers its nodes: the autoscaler never deletes them, and they exist when
all groups are empty. */ -}}
{{- define "autoscaler.placement" -}}
tolerations:
  - key: node-role.kubernetes.io/control-plane
    effect: NoSchedule
  {{- with .tolerations }}{{ toYaml . | nindent 2 }}{{ end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- if .affinity }}{{ toYaml .affinity | nindent 2 }}{{ else }}
  nodeAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        preference:
          matchExpressions:
            - key: node-role.kubernetes.io/control-plane
              operator: Exists
  {{- end }}
{{- end -}}

{{- define "autoscaler.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- if .Values.securityContext.enabled }}
runAsUser: {{ .Values.securityContext.runAsUser }}
fsGroup: {{ .Values.securityContext.fsGroup }}
{{- end }}
{{- end -}}

{{- define "autoscaler.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* Refuses keys that the chart does not know. `known` are the others. */ -}}
{{- define "autoscaler.knownKeys" -}}
{{- $ := . -}}
{{- if not (kindIs "map" .map) }}{{ fail (printf "%s: %s: write a map" .path (toJson .map)) }}{{ end -}}
{{- range $key, $value := .map }}
{{- if not (has $key $.known) }}{{ fail (printf "%s.%s: unknown key: write one of %s" $.path $key (join ", " $.known)) }}{{ end -}}
{{- end }}
{{- end -}}

{{- define "autoscaler.isPositive" -}}
{{- if regexMatch "^[1-9][0-9]{0,8}$" (include "autoscaler.text" .) }}yes{{ end -}}
{{- end -}}

{{- /* Refuses invalid values of the autoscaler before any manifest reaches a cluster. */ -}}
{{- define "autoscaler.check" -}}
{{- $it := .Values.autoscaler -}}
{{- $pods := list "image" "tag" "pullPolicy" "resources" "podAnnotations" "podLabels" "tolerations" "nodeSelector" "affinity" "args" -}}
{{- range $path, $known := dict
  "" (list "enabled" "backend" "groups" "nodeGroups" "bootstrapTokens" "supervisor" "vcenter" "clusterApi" "server" "clusterAutoscaler" "tls")
  "nodeGroups" (list "enabled" "namespace" "definition")
  "bootstrapTokens" (list "enabled")
  "supervisor" (list "secret" "kubeconfig" "namespace" "vmOperatorApiVersion")
  "vcenter" (list "configMap" "credentialsInSecret" "secret" "secretNamespace" "journalConfigMap" "bootstrapSecret")
  "clusterApi" (list "secret" "namespace" "clusterName" "reserved")
  "server" (concat $pods (list "address" "port" "securePort" "gpuLabel" "logging" "extraVolumes" "extraVolumeMounts"))
  "clusterAutoscaler" (concat $pods (list "enabled" "replicas" "grpcTimeout" "extraRules"))
  "tls" (list "mode" "serverSecret" "clientSecret" "job" "certManager")
  "tls.job" (list "image" "tag" "pullPolicy" "days" "renewBeforeDays")
  "tls.certManager" (list "duration" "renewBefore") }}
{{- $map := $it -}}
{{- range compact (splitList "." $path) }}{{ $map = get $map . }}{{ end -}}
{{- include "autoscaler.knownKeys" (dict "path" (join "." (compact (list "autoscaler" $path))) "map" $map "known" $known) -}}
{{- end -}}
{{- include "autoscaler.checkNodeGroups" $it -}}
{{- if not (kindIs "bool" $it.bootstrapTokens.enabled) }}{{ fail (printf "autoscaler.bootstrapTokens.enabled: %s: write true or false" (toJson $it.bootstrapTokens.enabled)) }}{{ end -}}
{{- include "autoscaler.checkBackend" . -}}
{{- if not (or $it.nodeGroups.enabled (eq $it.backend "cluster-api")) }}{{ include "autoscaler.checkGroups" (dict "groups" $it.groups "root" .) }}{{ end -}}
{{- include "autoscaler.checkServer" . -}}
{{- include "autoscaler.checkTls" $it.tls -}}
{{- if $it.clusterAutoscaler.enabled }}{{ include "autoscaler.checkClusterAutoscaler" . }}{{ end -}}
{{- end -}}

{{- define "autoscaler.checkNodeGroups" -}}
{{- range $key := tuple "enabled" "definition" }}
{{- if not (kindIs "bool" (get $.nodeGroups $key)) }}{{ fail (printf "autoscaler.nodeGroups.%s: %s: write true or false" $key (toJson (get $.nodeGroups $key))) }}{{ end -}}
{{- end }}
{{- if and .nodeGroups.namespace (not .nodeGroups.enabled) }}{{ fail (printf "autoscaler.nodeGroups.namespace: %q: has no effect without autoscaler.nodeGroups.enabled; set that to true, or leave this out" .nodeGroups.namespace) }}{{ end -}}
{{- if and .groups .nodeGroups.enabled }}{{ fail "autoscaler.groups: has no effect with autoscaler.nodeGroups.enabled; create NodeGroups instead" }}{{ end -}}
{{- end -}}

{{- define "autoscaler.checkGroups" -}}
{{- $see := "docs/autoscaler.md describes the keys" -}}
{{- $ := . -}}
{{- if or (not (kindIs "slice" .groups)) (not .groups) }}{{ fail (printf "autoscaler.groups: %s: write a list with at least one group; %s" (toJson .groups) $see) }}{{ end -}}
{{- $names := list -}}
{{- range $n, $group := .groups }}
{{- $place := printf "autoscaler.groups[%d]" $n -}}
{{- if not (kindIs "map" $group) }}{{ fail (printf "%s: %s: write a map; %s" $place (toJson $group) $see) }}{{ end -}}
{{- range tuple "name" "max" }}
{{- if not (hasKey $group .) }}{{ fail (printf "%s.%s: missing: every group needs it; %s" $place . $see) }}{{ end -}}
{{- end }}
{{- if has $group.name $names }}{{ fail (printf "%s.name: %q: another group has this name; write a different one" $place $group.name) }}{{ end -}}
{{- $names = append $names $group.name -}}
{{- if not (include "autoscaler.isPositive" $group.max) }}{{ fail (printf "%s.max: %s: write a whole number of machines, 1 or more" $place (toJson $group.max)) }}{{ end -}}
{{- include "autoscaler.checkMachine" (dict "place" $place "group" $group "root" $.root) -}}
{{- if gt (int64 (default 0 $group.min)) (int64 $group.max) }}{{ fail (printf "%s.min: %d: is above max, %d; write at most that" $place (int64 $group.min) (int64 $group.max)) }}{{ end -}}
{{- end }}
{{- end -}}

{{- define "autoscaler.checkServer" -}}
{{- $server := .Values.autoscaler.server -}}
{{- if not (has $server.address (list "0.0.0.0" "::")) }}{{ fail (printf "autoscaler.server.address: %q: write 0.0.0.0, or :: for pods with IPv6" $server.address) }}{{ end -}}
{{- range tuple "port" "securePort" }}
{{- $port := get $server . -}}
{{- if or (not (include "autoscaler.isPositive" $port)) (gt (int64 $port) 65535) }}{{ fail (printf "autoscaler.server.%s: %s: write a number from 1 to 65535" . (toJson $port)) }}{{ end -}}
{{- end }}
{{- if eq (int64 $server.port) (int64 $server.securePort) }}{{ fail (printf "autoscaler.server.securePort: %d: autoscaler.server.port is the same; write another port" (int64 $server.securePort)) }}{{ end -}}
{{- $values := dict "backend" "autoscaler.backend" "groups" "autoscaler.groups" "groups-from-cluster" "autoscaler.nodeGroups.enabled" "groups-namespace" "autoscaler.nodeGroups.namespace" "supervisor-kubeconfig" "autoscaler.supervisor" "namespace" (ternary "autoscaler.clusterApi.namespace" "autoscaler.supervisor.namespace" (eq .Values.autoscaler.backend "cluster-api"))
  "cloud-config" "autoscaler.vcenter.configMap" "journal" "autoscaler.vcenter.journalConfigMap" "journal-config-map" "autoscaler.vcenter.journalConfigMap" "journal-kubeconfig" "" "bootstrap-directory" "autoscaler.vcenter.bootstrapSecret"
  "management-kubeconfig" "autoscaler.clusterApi.secret" "cluster-name" "autoscaler.clusterApi.clusterName" "reserved" "autoscaler.clusterApi.reserved"
  "vm-operator-api-version" "autoscaler.supervisor.vmOperatorApiVersion" "listen" "autoscaler.server.port" "bind-address" "autoscaler.server.address" "gpu-label" "autoscaler.server.gpuLabel"
  "secure-port" "autoscaler.server.securePort" "v" "autoscaler.server.logging" "tls-cert-file" "autoscaler.tls" "tls-private-key-file" "autoscaler.tls"
  "client-ca-file" "autoscaler.tls" "insecure-plain-text" "" "workload-kubeconfig" "" -}}
{{- include "autoscaler.checkArgs" (dict "path" "autoscaler.server.args" "args" $server.args "values" $values) -}}
{{- end -}}

{{- /* `values` are the flags that the chart sets, with the values that do so. */ -}}
{{- define "autoscaler.checkArgs" -}}
{{- $ := . -}}
{{- if not (kindIs "map" .args) }}{{ fail (printf "%s: %s: write a map of NAME: VALUE" .path (toJson .args)) }}{{ end -}}
{{- range $name, $value := .args }}
{{- if not (regexMatch "^[a-z][a-z0-9-]*$" $name) }}{{ fail (printf "%s: %q: is not the name of a flag; write it without dashes in front, such as scan-interval" $.path $name) }}{{ end -}}
{{- if hasKey $.values $name }}
{{- $other := get $.values $name -}}
{{- fail (printf "%s.%s: %s: %s" $.path $name (toJson $value) (ternary (printf "the chart sets this flag; use %s instead" $other) "the chart decides this itself; leave it out" (ne $other ""))) -}}
{{- end -}}
{{- if or (kindIs "map" $value) (kindIs "invalid" $value) }}{{ fail (printf "%s.%s: %s: write a text, a number, true, false or a list of these" $.path $name (toJson $value)) }}{{ end -}}
{{- end }}
{{- end -}}

{{- define "autoscaler.checkTls" -}}
{{- if not (has .mode (list "job" "certManager" "existing")) }}{{ fail (printf "autoscaler.tls.mode: %q: write job, certManager or existing" .mode) }}{{ end -}}
{{- range $key := tuple "serverSecret" "clientSecret" }}
{{- if not (get $ $key) }}{{ fail (printf "autoscaler.tls.%s: \"\": write the name of a Secret" $key) }}{{ end -}}
{{- end }}
{{- if eq .serverSecret .clientSecret }}{{ fail (printf "autoscaler.tls.clientSecret: %q: autoscaler.tls.serverSecret is the same; write another name, because server and autoscaler have different certificates" .clientSecret) }}{{ end -}}
{{- range $key := tuple "days" "renewBeforeDays" }}
{{- if not (include "autoscaler.isPositive" (get $.job $key)) }}{{ fail (printf "autoscaler.tls.job.%s: %s: write a whole number of days, 1 or more" $key (toJson (get $.job $key))) }}{{ end -}}
{{- end }}
{{- if ge (int64 .job.renewBeforeDays) (int64 .job.days) }}{{ fail (printf "autoscaler.tls.job.renewBeforeDays: %d: write less than autoscaler.tls.job.days, %d" (int64 .job.renewBeforeDays) (int64 .job.days)) }}{{ end -}}
{{- range $key := tuple "duration" "renewBefore" }}
{{- if not (regexMatch "^[1-9][0-9]{0,6}h$" (toString (get $.certManager $key))) }}{{ fail (printf "autoscaler.tls.certManager.%s: %s: write whole hours, such as 720h" $key (toJson (get $.certManager $key))) }}{{ end -}}
{{- end }}
{{- if ge (trimSuffix "h" .certManager.renewBefore | int64) (trimSuffix "h" .certManager.duration | int64) }}{{ fail (printf "autoscaler.tls.certManager.renewBefore: %q: write less than autoscaler.tls.certManager.duration, %s" .certManager.renewBefore .certManager.duration) }}{{ end -}}
{{- end -}}

{{- define "autoscaler.checkClusterAutoscaler" -}}
{{- $path := "autoscaler.clusterAutoscaler" -}}
{{- $it := .Values.autoscaler.clusterAutoscaler -}}
{{- if not (include "autoscaler.isPositive" $it.replicas) }}{{ fail (printf "%s.replicas: %s: write a whole number, 1 or more" $path (toJson $it.replicas)) }}{{ end -}}
{{- if not (regexMatch "^[1-9][0-9]{0,4}(s|m)$" (toString $it.grpcTimeout)) }}{{ fail (printf "%s.grpcTimeout: %s: write a whole number of seconds or minutes with its unit, such as 5s or 1m" $path (toJson $it.grpcTimeout)) }}{{ end -}}
{{- $values := dict "cloud-provider" "" "cloud-config" "" "address" "" "kubeconfig" "" "kubernetes" "" "namespace" "" "status-config-map-name" ""
  "leader-elect-resource-lock" "" "leader-elect-resource-name" "" "leader-elect-resource-namespace" "" -}}
{{- include "autoscaler.checkArgs" (dict "path" (printf "%s.args" $path) "args" $it.args "values" $values) -}}
{{- if and (gt (int64 $it.replicas) 1) (eq (toString (get $it.args "leader-elect")) "false") }}{{ fail (printf "%s.replicas: %d: without leader election all of them would scale; write 1, or leave args.leader-elect out" $path (int64 $it.replicas)) }}{{ end -}}
{{- range tuple "enable-provisioning-requests" "capacity-buffer-controller-enabled" "capacity-buffer-pod-injection-enabled" "capacity-quotas-enabled" }}
{{- if and (eq (toString (get $it.args .)) "true") (not $it.extraRules) }}{{ fail (printf "%s.args.%s: true: needs permissions that the chart's ClusterRole lacks; write them in %s.extraRules" $path . $path) }}{{ end -}}
{{- end }}
{{- /* From 1.35 on it waits for resource.k8s.io/v1 without end and without an error. */ -}}
{{- if and (semverCompare "<1.34-0" .Capabilities.KubeVersion.Version) (regexMatch "^v?1\\.(3[5-9]|[4-9][0-9])\\." $it.tag) }}{{ fail (printf "%s.tag: %q: needs Kubernetes 1.34 or newer, and the cluster has %s; write a tag of the cluster's minor version" $path $it.tag .Capabilities.KubeVersion.Version) }}{{ end -}}
{{- end -}}

{{- /* The autoscaler's file that names the server. */ -}}
{{- define "autoscaler.cloudConfig" -}}
address: {{ include "autoscaler.host" . }}:{{ .Values.autoscaler.server.port }}
cert: /etc/autoscaler/tls/tls.crt
key: /etc/autoscaler/tls/tls.key
cacert: /etc/autoscaler/tls/ca.crt
grpc_timeout: {{ .Values.autoscaler.clusterAutoscaler.grpcTimeout }}
{{- end -}}

{{- /* The annotations of a hook with a weight, in one line, so that render.sh can leave them out. */ -}}
{{- define "autoscaler.hook" -}}
{helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-weight: {{ . | quote }}, helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded"}
{{- end -}}
