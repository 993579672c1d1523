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

{{/* "true" when pods need a token of the API server. */}}
{{- define "recovery.apiToken" -}}
{{- if or .Values.rbac.rules (include "recovery.sparkPods" .) -}}true{{- end -}}
{{- end -}}
