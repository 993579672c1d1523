{{/*
The pod of every job. Takes (dict "root" $ "args" <list of words behind the program> "component" <name>), "restartPolicy" unless that is Never, and
"annotations" where it has some of its own.
*/}}
{{- define "recovery.podTemplate" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
metadata:
  labels:
    {{- include "recovery.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with merge (dict) (.annotations | default dict) $values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- include "recovery.podSpec" . | nindent 2 }}
{{- end -}}

{{- define "recovery.podSpec" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ include "recovery.serviceAccount" $root }}
automountServiceAccountToken: {{ include "recovery.apiToken" $root | eq "true" }}
enableServiceLinks: false
restartPolicy: {{ .restartPolicy | default "Never" }}
terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
securityContext:
  {{- toYaml $values.podSecurityContext | nindent 2 }}
{{- with $values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
containers:
  - name: recovery
    image: {{ include "recovery.image" $root | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    command: [python, -m, streams_recovery]
    args: {{ toJson .args }}
    workingDir: /tmp
    env:
      {{- include "recovery.environment" $root | nindent 6 }}
    resources:
      {{- toYaml $values.resources | nindent 6 }}
    securityContext:
      {{- toYaml $values.containerSecurityContext | nindent 6 }}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
      - {name: configs, mountPath: /etc/streams-recovery/configs, readOnly: true}
      {{- if include "recovery.sparkSettings" $root }}
      - {name: spark, mountPath: /etc/streams-recovery/spark, readOnly: true}
      {{- end }}
      {{- range $values.secretFiles }}
      - {name: {{ .name }}, mountPath: {{ .mountPath }}, readOnly: true}
      {{- end }}
      {{- if $values.repository.existingClaim }}
      - {name: repository, mountPath: /var/lib/streams-recovery/repository}
      {{- end }}
volumes:
  {{- include "recovery.volumes" $root | nindent 2 }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $values $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "recovery.environment" -}}
- name: STREAMS_RECOVERY_CONFIG_DIR
  value: /etc/streams-recovery/configs
{{- range $name, $field := dict "NAME" "metadata.name" "NAMESPACE" "metadata.namespace" "IP" "status.podIP" }}
- name: STREAMS_RECOVERY_POD_{{ $name }}
  valueFrom: {fieldRef: {fieldPath: {{ $field }}}}
{{- end }}
# Who has asked for a savepoint or a restore.
- name: LOGNAME
  value: $(STREAMS_RECOVERY_POD_NAME)
- name: AIRFLOW_CONN_{{ .Values.spark.connection | upper }}
  value: {{ dict "conn_type" "spark" "host" .Values.spark.master | toJson | squote }}
{{- if include "recovery.sparkSettings" . }}
- name: SPARK_CONF_DIR
  value: /etc/streams-recovery/spark
{{- end }}
{{- range $id, $secret := .Values.connections }}
- name: AIRFLOW_CONN_{{ $id | upper }}
  valueFrom: {secretKeyRef: {name: {{ $secret.secretName }}, key: {{ $secret.key }}}}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "recovery.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: {{ .Values.tmp.sizeLimit }}}
- name: configs
  configMap: {name: {{ .Values.existingConfigMap | default (printf "%s-configs" (include "recovery.name" .)) }}}
{{- if .Values.spark.secretDefaults }}
- name: spark
  secret: {secretName: {{ .Values.spark.secretDefaults }}, defaultMode: 0440}
{{- else if include "recovery.sparkSettings" . }}
- name: spark
  configMap: {name: {{ include "recovery.name" . }}-spark}
{{- end }}
{{- range .Values.secretFiles }}
- name: {{ .name }}
  secret: {secretName: {{ .secretName }}, defaultMode: 0440}
{{- end }}
{{- with .Values.repository.existingClaim }}
- name: repository
  persistentVolumeClaim: {claimName: {{ . }}}
{{- end }}
{{- end -}}
