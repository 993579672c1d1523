{{/* The prefix of all names: the release's name. A CronJob's name has at most 52 characters. */}}
{{- define "recovery.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "recovery.labels" -}}
app.kubernetes.io/name: kafka-streams-recovery
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "recovery.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "recovery.name" .) -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "recovery.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* "true" when Spark's executors are pods. */}}
{{- define "recovery.sparkPods" -}}
{{- if hasPrefix "k8s://" .Values.spark.master -}}true{{- end -}}
{{- end -}}

{{/* "true" when there is a spark-defaults.conf. */}}
{{- define "recovery.sparkSettings" -}}
{{- if or .Values.spark.defaults .Values.spark.secretDefaults (include "recovery.sparkPods" .) -}}true{{- end -}}
{{- end -}}

{{/* "true" when the ServiceAccount has rights in the release's own namespace. */}}
{{- define "recovery.ownRights" -}}
{{- if or .Values.rbac.rules (include "recovery.sparkPods" .) -}}true{{- end -}}
{{- end -}}

{{/*
What the application's configuration says of how it runs, as JSON: `pods` is true for runs.kind kubernetes, and `kubernetes` is that section. {} where the
configuration is in another ConfigMap.
*/}}
{{- define "recovery.runs" -}}
{{- $files := ternary (dict) .Values.configs (ne .Values.existingConfigMap "") -}}
{{- $text := get $files (printf "%s.yaml" .Values.application) | default (get $files (printf "%s.yml" .Values.application)) | default "" -}}
{{- $read := fromYaml $text -}}
{{- $runs := $read.runs | default dict -}}
{{- /* With variables a file may be no YAML before they have values. */ -}}
{{- $pods := or (eq (toString $runs.kind) "kubernetes") (and (hasKey $read "Error") (contains "kind: kubernetes" $text)) -}}
{{- dict "pods" $pods "kubernetes" ($runs.kubernetes | default dict) | toJson -}}
{{- end -}}

{{/*
The workload over which rights are made, as JSON: namespace, kind, name, record and claims, all from the configuration, so that the two cannot differ. {} where
none are.
*/}}
{{- define "recovery.workload" -}}
{{- $runs := include "recovery.runs" . | fromJson -}}
{{- if not (and .Values.rbac.workload.create $runs.pods) -}}
{}
{{- else -}}
{{- $pods := $runs.kubernetes -}}
{{- $name := regexFind "^(deployment|statefulset)/[a-z0-9.-]+$" (toString $pods.workload) | splitList "/" -}}
{{- if or (ne (len $name) 2) (not (regexMatch "^[a-z0-9-]+$" (toString $pods.namespace))) -}}
{{- fail "runs.kubernetes.namespace and workload must be written out, not as variables; else set rbac.workload.create to false" -}}
{{- end -}}
{{- $record := $pods.record | default (printf "%s-streams-recovery" (last $name)) -}}
{{- dict "namespace" $pods.namespace "kind" (first $name) "name" (last $name) "record" $record "claims" ($pods.claims | default "") | toJson -}}
{{- end -}}
{{- end -}}

{{/* "true" when pods need a token of the API server: they have rights, or the application's pods are theirs to stop with rights that somebody else grants. */}}
{{- define "recovery.apiToken" -}}
{{- if or (include "recovery.ownRights" .) (include "recovery.runs" . | fromJson).pods -}}true{{- end -}}
{{- end -}}
