{{/* A CronJob. Takes (dict "root" $ "name" "backup" "args" <list>); .Values has a section of that name. */}}
{{- define "recovery.cronJob" -}}
{{- $section := index .root.Values .name -}}
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ include "recovery.name" .root }}-{{ .name }}
  labels:
    {{- include "recovery.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  schedule: {{ $section.schedule | quote }}
  timeZone: {{ .root.Values.timeZone }}
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 600
  successfulJobsHistoryLimit: {{ .root.Values.history.successful }}
  failedJobsHistoryLimit: {{ .root.Values.history.failed }}
  jobTemplate:
    spec:
      activeDeadlineSeconds: {{ $section.activeDeadlineSeconds | int }}
      backoffLimit: {{ $section.backoffLimit | int }}
      # Only what may succeed when it is tried again is tried again: no answer (7, 20), and a pod that was ended.
      podFailurePolicy:
        rules:
          - action: FailJob
            onExitCodes: {containerName: recovery, operator: NotIn, values: [7, 20, 137, 143]}
      template:
        {{- include "recovery.podTemplate" (dict "root" .root "args" .args "component" .name) | nindent 8 }}
{{- end -}}
