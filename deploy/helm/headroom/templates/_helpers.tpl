{{- /* SPDX-License-Identifier: Apache-2.0 */}}
{{- /* These functions change manifests that were read into dicts, and print nothing. */}}

{{- define "headroom.name" -}}
{{ contains "headroom" .Release.Name | ternary .Release.Name (printf "%s-headroom" .Release.Name) | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "headroom.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* (root, object, name): sets the name and the labels of this release. */}}
{{- define "headroom.metadata" }}
{{- $root := index . 0 }}
{{- $metadata := (index . 1).metadata }}
{{- $_ := mustMergeOverwrite $metadata (dict "name" (index . 2) "namespace" $root.Release.Namespace "labels" (dict
	"app.kubernetes.io/instance" $root.Release.Name
	"app.kubernetes.io/version" $root.Chart.AppVersion
	"app.kubernetes.io/managed-by" $root.Release.Service
	"helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version))) }}
{{- end }}

{{- /* (root, DaemonSet, name): sets the values that agent and restore share. */}}
{{- define "headroom.daemonset" }}
{{- $root := index . 0 }}
{{- $values := $root.Values }}
{{- $daemonset := index . 1 }}
{{- $pod := $daemonset.spec.template.spec }}
{{- include "headroom.metadata" . }}
{{- /* The selectors of two releases and of two profiles must differ. */}}
{{- $own := dict "app.kubernetes.io/instance" $root.Release.Name "app.kubernetes.io/component" (index . 2) }}
{{- $_ := mustMergeOverwrite $daemonset.spec.selector.matchLabels $own }}
{{- $_ := mustMergeOverwrite $daemonset.spec.template.metadata.labels $own }}
{{- $_ := mustMergeOverwrite $daemonset.spec.template.metadata.labels (deepCopy $values.podLabels) }}
{{- $_ := set $pod "priorityClassName" $values.priorityClassName }}
{{- $_ := set $pod "nodeSelector" (deepCopy $values.nodeSelector) }}
{{- $_ := set $pod "tolerations" $values.tolerations }}
{{- with $values.affinity }}
{{- $_ := set $pod "affinity" (deepCopy .) }}
{{- end }}
{{- with $values.serviceAccountName }}
{{- $_ := set $pod "serviceAccountName" . }}
{{- end }}
{{- with $values.extraVolumes }}
{{- $_ := set $pod "volumes" (concat $pod.volumes .) }}
{{- end }}
{{- with $values.imagePullSecrets }}
{{- $_ := set $pod "imagePullSecrets" . }}
{{- end }}
{{- range concat ($pod.initContainers | default list) $pod.containers }}
{{- $_ := set . "image" (include "headroom.image" $root) }}
{{- $_ := set . "imagePullPolicy" $values.image.pullPolicy }}
{{- $_ := set . "resources" $values.resources }}
{{- end }}
{{- $container := first (concat ($pod.initContainers | default list) $pod.containers) }}
{{- $_ := set $container.securityContext.capabilities "add" $values.capabilities }}
{{- $_ := mustMergeOverwrite $container.securityContext (deepCopy $values.securityContext) }}
{{- range $container.env }}
{{- if eq .name "HEADROOM_OWNER" }}
{{- $_ := set . "value" (printf "helm-release/%s/%s" $root.Release.Namespace $root.Release.Name) }}
{{- end }}
{{- end }}
{{- with $values.extraEnv }}
{{- $_ := set $container "env" (concat $container.env .) }}
{{- end }}
{{- with $values.extraVolumeMounts }}
{{- $_ := set $container "volumeMounts" (concat $container.volumeMounts .) }}
{{- end }}
{{- range $i, $directory := $values.writableDirectories }}
{{- $name := printf "writable-%d" $i }}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts (dict "name" $name "mountPath" (printf "/host%s" $directory))) }}
{{- $_ := set $pod "volumes" (append $pod.volumes (dict "name" $name "hostPath" (dict "path" $directory "type" "DirectoryOrCreate"))) }}
{{- end }}
{{- end }}
