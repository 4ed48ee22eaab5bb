{{- define "turngate.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "turngate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/name: turngate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "turngate.selector" -}}
app.kubernetes.io/name: turngate
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end -}}

{{- define "turngate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "turngate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "turngate.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- /* The variables of every process, less what differs by pod. Files are mounted by turngate.mounts. */ -}}
{{- define "turngate.settings" -}}
{{- $kafka := .Values.kafka -}}
{{- $redis := .Values.redis -}}
TURNGATE_ENVIRONMENT: {{ .Values.environment | quote }}
TURNGATE_TOPIC_PREFIX: {{ .Values.topicPrefix | quote }}
TURNGATE_PARTITIONS: {{ .Values.partitions | quote }}
TURNGATE_LOG_LEVEL: {{ .Values.logLevel | quote }}
TURNGATE_STATIC_MEMBERSHIP: "true"
TURNGATE_TENANTS: {{ join "," .Values.tenants | quote }}
TURNGATE_ENDPOINTS: "@/etc/turngate/endpoints/endpoints.json"
TURNGATE_HTTP_HOST: "0.0.0.0"
TURNGATE_HTTP_PORT: "8080"
TURNGATE_KAFKA: {{ $kafka.bootstrap | quote }}
TURNGATE_KAFKA_SECURITY_PROTOCOL: {{ $kafka.securityProtocol | quote }}
{{- if hasPrefix "SASL" $kafka.securityProtocol }}
TURNGATE_KAFKA_SASL_MECHANISM: {{ $kafka.saslMechanism | quote }}
TURNGATE_KAFKA_USERNAME: {{ $kafka.username | quote }}
TURNGATE_KAFKA_PASSWORD_FILE: {{ printf "/etc/turngate/kafka/%s" $kafka.passwordKey | quote }}
{{- end }}
{{- range $variable, $key := dict "CA" $kafka.caKey "CERT" $kafka.certKey "KEY" $kafka.keyKey }}
{{- if $key }}
TURNGATE_KAFKA_{{ $variable }}_FILE: {{ printf "/etc/turngate/kafka/%s" $key | quote }}
{{- end }}
{{- end }}
TURNGATE_REDIS: {{ $redis.url | quote }}
{{- if $redis.username }}
TURNGATE_REDIS_USERNAME: {{ $redis.username | quote }}
{{- end }}
{{- if $redis.passwordKey }}
TURNGATE_REDIS_PASSWORD_FILE: {{ printf "/etc/turngate/redis/%s" $redis.passwordKey | quote }}
{{- end }}
{{- if $redis.caKey }}
TURNGATE_REDIS_CA_FILE: {{ printf "/etc/turngate/redis/%s" $redis.caKey | quote }}
{{- end }}
{{- range $name, $value := .Values.settings }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- define "turngate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "turngate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "turngate.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .Values.kafka.existingSecret }}
- {name: kafka, mountPath: /etc/turngate/kafka, readOnly: true}
{{- end }}
{{- if .Values.redis.existingSecret }}
- {name: redis, mountPath: /etc/turngate/redis, readOnly: true}
{{- end }}
{{- end -}}

{{- define "turngate.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- if .Values.kafka.existingSecret }}
- name: kafka
  secret: {secretName: {{ .Values.kafka.existingSecret | quote }}, defaultMode: 0440}
{{- end }}
{{- if .Values.redis.existingSecret }}
- name: redis
  secret: {secretName: {{ .Values.redis.existingSecret | quote }}, defaultMode: 0440}
{{- end }}
{{- end -}}
