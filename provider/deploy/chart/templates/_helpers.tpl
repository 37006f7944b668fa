{{- /* The configuration: `config`, with the values of `global.config` in place of its own. */ -}}
{{- define "cpi.config" -}}
{{- mergeOverwrite (deepCopy .Values.config) (default (dict) (default (dict) .Values.global).config) | toYaml -}}
{{- end -}}

{{- define "cpi.labels" -}}
app: {{ .Chart.Name }}
app.kubernetes.io/name: vsphere-cloud-controller-manager
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
component: cloud-controller-manager
tier: control-plane
{{- end -}}

{{- define "cpi.selector" -}}
name: vsphere-cloud-controller-manager
{{- end -}}

{{- define "cpi.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end -}}
{{- end -}}

{{- /* Refuses invalid values before any manifest reaches a cluster. */ -}}
{{- define "cpi.check" -}}
{{- if not (has .Values.mode (list "vcenter" "supervisor")) }}{{ fail (printf "mode: %q: write vcenter or supervisor" .Values.mode) }}{{ end -}}
{{- if not (has .Values.kind (list "DaemonSet" "Deployment")) }}{{ fail (printf "kind: %q: write DaemonSet or Deployment" .Values.kind) }}{{ end -}}
{{- if not (or .Values.cloudControllerManager.enabled .Values.autoscaler.enabled) }}{{ fail "cloudControllerManager.enabled: false: nothing is left to install; also set autoscaler.enabled=true" }}{{ end -}}
{{- if .Values.podSecurityPolicy.enabled }}{{ fail "podSecurityPolicy.enabled: true: Kubernetes has no PodSecurityPolicy since 1.25; leave it out" }}{{ end -}}
{{- end -}}
