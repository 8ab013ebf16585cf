{{- /* SPDX-License-Identifier: Apache-2.0 */}}
{{- /* Functions with several arguments change dicts, and print nothing. */}}

{{- /*
Gives each value that is missing or null its default. A value is null if the user says so, and missing after `helm upgrade --reuse-values`
from an older chart. Maps of Kubernetes are one value: a null in them takes a key away.
*/}}
{{- define "headroom.defaults" }}
{{- $sections := list "image" "restore" "podMonitor" "serviceMonitor" "prometheusRule" "dashboard" "networkPolicy" }}
{{- range $name, $default := .Files.Get "defaults.json" | fromJson }}
{{- if kindIs "invalid" (index $.Values $name) }}
{{- $_ := set $.Values $name $default }}
{{- else if has $name $sections }}
{{- range $key, $value := $default }}
{{- if kindIs "invalid" (index $.Values $name $key) }}
{{- $_ := set (index $.Values $name) $key $value }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "headroom.name" -}}
{{- $name := contains "headroom" .Release.Name | ternary .Release.Name (printf "%s-headroom" .Release.Name) -}}
{{ .Values.fullnameOverride | default $name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "headroom.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* (root, object, name): sets the name and the labels of this release. */}}
{{- define "headroom.metadata" }}
{{- $root := index . 0 }}
{{- $metadata := (index . 1).metadata }}
{{- $labels := dict
	"app.kubernetes.io/instance" $root.Release.Name
	"app.kubernetes.io/version" $root.Chart.AppVersion
	"app.kubernetes.io/managed-by" $root.Release.Service
	"helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) }}
{{- $_ := mustMergeOverwrite $metadata (dict "name" (index . 2) "namespace" $root.Release.Namespace
	"labels" (merge $labels ($metadata.labels | default dict) $root.Values.commonLabels)) }}
{{- end }}

{{- /* (scope, text): a new text has a new name. So a change replaces the pods, and those that wait for it keep their text. */}}
{{- define "headroom.config-name" -}}
{{ (index . 0).name }}-{{ index . 1 | sha256sum | trunc 8 }}
{{- end }}

{{- /*
(root, result): sets result.scopes. There is a scope for each profile, and the last one is for all other nodes. A scope is the
root with the values of that profile, the name of its objects, and the terms of a node affinity that select its nodes.
*/}}
{{- define "headroom.scopes" }}
{{- $root := index . 0 }}
{{- $result := index . 1 }}
{{- $scopes := list }}
{{- $names := list "restore" "check-config" }}
{{- $selectors := list }}
{{- range list "name" "instance" "component" }}
{{- if hasKey $root.Values.podLabels (printf "app.kubernetes.io/%s" .) }}
{{- fail (printf "podLabels: app.kubernetes.io/%s selects the pods of the chart: choose another label" .) }}
{{- end }}
{{- end }}
{{- range $root.Values.extraContainers }}
{{- if eq .name "headroom" }}
{{- fail "extraContainers: the agent's container is called headroom: choose another name" }}
{{- end }}
{{- end }}
{{- /* The terms are alternatives. They select the nodes that no earlier profile has. */}}
{{- $terms := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" (list dict) $root.Values.affinity }}
{{- range $profile := append ($root.Values.profiles | default list) dict }}
{{- if has $profile.name $names }}
{{- fail (printf "profiles: the name %s is taken: give each profile its own name, other than restore and check-config" $profile.name) }}
{{- end }}
{{- $names = append $names $profile.name }}
{{- $selector := $profile.nodeSelector | default dict }}
{{- if has $selector $selectors }}
{{- fail (printf "profiles: %s selects the nodes of an earlier profile, so it would have none: change its nodeSelector" $profile.name) }}
{{- end }}
{{- $selectors = append $selectors $selector }}
{{- range $label, $value := $selector }}
{{- if and (hasKey $root.Values.nodeSelector $label) (ne $value (get $root.Values.nodeSelector $label)) }}
{{- fail (printf "profiles: %s selects %s=%s, but nodeSelector has only nodes with %s=%s" $profile.name $label $value $label (get $root.Values.nodeSelector $label)) }}
{{- end }}
{{- end }}
{{- $values := mustMergeOverwrite (dict "config" dict) (deepCopy $root.Values) }}
{{- if dig "image" "tag" "" $profile }}
{{- $_ := set $values.image "digest" "" }}
{{- end }}
{{- range $key, $value := omit $profile "name" "nodeSelector" }}
{{- if kindIs "map" $value }}
{{- $_ := set $values $key (mustMergeOverwrite (get $values $key | default dict) (deepCopy $value)) }}
{{- else if not (kindIs "invalid" $value) }}
{{- $_ := set $values $key $value }}
{{- end }}
{{- end }}
{{- if not (has (dig "rollingUpdate" "maxSurge" 0 $values.updateStrategy | default 0 | toString) (list "0" "0%")) }}
{{- fail "updateStrategy: maxSurge starts a second agent on a node, where both need the same port and the same lock: use maxUnavailable" }}
{{- end }}
{{- $scopes = append $scopes (dict "Values" $values "Chart" $root.Chart "Release" $root.Release "Files" $root.Files
	"name" (compact (list (include "headroom.name" $root) $profile.name) | join "-") "nodeSelector" $selector "terms" $terms) }}
{{- /* A node is not in this profile if one of its labels differs. */}}
{{- $others := list }}
{{- range $term := $terms }}
{{- range $label, $value := $selector }}
{{- $differs := dict "key" $label "operator" "NotIn" "values" (list $value) }}
{{- $others = append $others (merge (dict "matchExpressions" (append ($term.matchExpressions | default list) $differs | uniq)) $term) }}
{{- end }}
{{- end }}
{{- $terms = $others | uniq }}
{{- if gt (len $terms) 256 }}
{{- fail "profiles: their nodeSelectors have more than 256 combinations of labels: use fewer labels" }}
{{- end }}
{{- end }}
{{- $_ := set $result "scopes" $scopes }}
{{- end }}

{{- /* (scope, DaemonSet, name): sets the values that agent and restore share. */}}
{{- define "headroom.daemonset" }}
{{- $root := index . 0 }}
{{- $values := $root.Values }}
{{- $daemonset := index . 1 }}
{{- $pod := $daemonset.spec.template.spec }}
{{- include "headroom.metadata" . }}
{{- /* The selectors of two releases and of two profiles must differ. */}}
{{- $own := dict "app.kubernetes.io/instance" $root.Release.Name "app.kubernetes.io/component" (index . 2) }}
{{- $_ := mustMergeOverwrite $daemonset.spec.selector.matchLabels $own }}
{{- $labels := $daemonset.spec.template.metadata.labels }}
{{- $_ := mustMergeOverwrite $labels (deepCopy $values.podLabels) $own }}
{{- $_ := merge $labels $values.commonLabels }}
{{- with $values.podAnnotations }}
{{- $_ := set $daemonset.spec.template.metadata "annotations" . }}
{{- end }}
{{- $_ := set $daemonset.spec "revisionHistoryLimit" $values.revisionHistoryLimit }}
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

{{- /*
(scope): prints the tolerations of the pods of hooks, which Helm waits for. They tolerate no taint of a node whose kubelet is gone,
because they would never end there.
*/}}
{{- define "headroom.hook-tolerations" -}}
{{- $tolerations := .Values.hookTolerations }}
{{- range .Values.tolerations }}
{{- if and .key (not (hasPrefix "node.kubernetes.io/" .key)) }}
{{- $tolerations = append $tolerations . }}
{{- else if not .key }}
{{- range list "node-role.kubernetes.io/control-plane" "node-role.kubernetes.io/master" "CriticalAddonsOnly" }}
{{- $tolerations = append $tolerations (dict "key" . "operator" "Exists") }}
{{- end }}
{{- end }}
{{- end }}
{{- uniq $tolerations | toYaml }}
{{- end }}

{{- /* (scope, object, name): prints the metadata of a pod of a hook, without a name. */}}
{{- define "headroom.hook-pod-metadata" -}}
{{- $values := (index . 0).Values }}
{{- $object := dict "metadata" (dict "labels" (dict "app.kubernetes.io/name" (index . 1))) }}
{{- include "headroom.metadata" (list (index . 0) $object (index . 1)) -}}
labels: {{ merge $object.metadata.labels $values.podLabels | toYaml | nindent 2 }}
{{- with $values.podAnnotations }}
annotations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Prints something if `helm uninstall` restores the nodes: its Job sleeps, which Kubernetes can do since 1.30. */}}
{{- define "headroom.restores" -}}
{{ and .Values.restore.enabled (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) | ternary "yes" "" }}
{{- end }}

{{- /* (scope, job): prints the Job job.name of a hook. */}}
{{- define "headroom.job" }}
{{- $root := index . 0 }}
{{- $job := index . 1 }}
{{- $values := $root.Values }}
{{- $object := dict "metadata" (dict "labels" (dict "app.kubernetes.io/name" $job.name)) }}
{{- include "headroom.metadata" (list $root $object $job.name) }}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $job.name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{ toYaml $object.metadata.labels | nindent 4 }}
  annotations:
    helm.sh/hook: {{ $job.hook }}
    helm.sh/hook-weight: "1"
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
    helm.sh/hook-output-log-policy: hook-failed # Helm 3.18 and later print what check-config says
spec:
  backoffLimit: {{ $job.tries }}
  activeDeadlineSeconds: {{ $job.seconds }} # instead of a hook that hangs until Helm gives up
  template:
    metadata: {{- include "headroom.hook-pod-metadata" (list $root $job.name) | nindent 6 }}
    spec:
      automountServiceAccountToken: false
      restartPolicy: Never
      hostNetwork: true # needs no pod address
      priorityClassName: {{ $values.priorityClassName | quote }} # also on full nodes
      {{- with $job.grace }}
      terminationGracePeriodSeconds: {{ . }}
      {{- end }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets: {{ toYaml . | nindent 6 }}
      {{- end }}
      nodeSelector: {{ merge (dict "kubernetes.io/os" "linux") $values.nodeSelector | toYaml | nindent 8 }}
      {{- with $values.affinity }}
      affinity: {{ toYaml . | nindent 8 }}
      {{- end }}
      tolerations: {{- include "headroom.hook-tolerations" $root | nindent 8 }}
      securityContext: {seccompProfile: {type: RuntimeDefault}}
      containers:
      {{- range $job.containers }}
      - {{ merge . (dict
	"imagePullPolicy" $values.image.pullPolicy
	"terminationMessagePolicy" "FallbackToLogsOnError"
	"resources" $values.resources
	"securityContext" (dict "runAsUser" 0 "runAsGroup" 0 "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true
		"capabilities" (dict "drop" (list "ALL")))) | toYaml | nindent 8 | trim }}
      {{- end }}
      {{- with $job.volumes }}
      volumes: {{ toYaml . | nindent 6 }}
      {{- end }}
{{- end }}
