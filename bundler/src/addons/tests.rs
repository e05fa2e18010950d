use super::*;

fn found(text: &str) -> Discovery {
    discover("a.yaml", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

fn names(mentions: &[Mention]) -> Vec<String> {
    mentions.iter().map(|m| format!("{} {} {}", m.line, m.reference, m.place)).collect()
}

#[test]
fn every_pod_spec_of_any_kind() {
    let found = found(
        "\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  spec:
    containers: [{name: a, image: nginx}]
    initContainers: [{name: b, image: 'busybox:1'}]
    ephemeralContainers: [{name: c, image: quay.io/d/debug:2}]
    volumes: [{name: v, image: {reference: quay.io/v/models:3}}]
---
apiVersion: batch/v1
kind: CronJob
spec:
  jobTemplate: {spec: {template: {spec: {containers: [{image: calico/node:v3}]}}}}
---
# image: not/this:1
apiVersion: example.com/v1
kind: Thing
spec:
  image: ghcr.io/o/thing:v1
  template:
    spec:
      containers:
      - image: ghcr.io/o/side:v1
",
    );
    assert_eq!(
        names(&found.images),
        [
            "15 docker.io/calico/node:v3 image",
            "8 docker.io/library/busybox:1 image",
            "7 docker.io/library/nginx:latest image",
            "25 ghcr.io/o/side:v1 image",
            "21 ghcr.io/o/thing:v1 image",
            "9 quay.io/d/debug:2 image",
            "10 quay.io/v/models:3 image",
        ]
    );
    assert_eq!(found.possible, []);
}

#[test]
fn other_places_are_possible_with_their_line() {
    let found = found(
        "\
apiVersion: apps/v1
kind: Deployment
metadata:
  annotations:
    sidecar: quay.io/m/proxy:v9
    kubectl.kubernetes.io/last-applied-configuration: '{\"image\":\"quay.io/old/x:1\"}'
spec:
  template:
    spec:
      containers:
      - image: quay.io/o/operator:v1
        imagePullPolicy: IfNotPresent
        args:
        - --reloader=quay.io/o/reloader:v2
        - --solver-image
        - jetstack/solver:v3
        - --self=quay.io/o/operator:v1
        - --class=k8s.io/ingress-nginx
        env:
        - {name: RELATED_IMAGE_DB, value: 'postgres:13'}
        - {name: CIDR, value: 10.0.0.0/8}
---
apiVersion: v1
kind: ConfigMap
data:
  injector: |
    # quay.io/commented/out:1
    containers:
    - image: \"envoyproxy/envoy:v1.20\"
    - name: {{ x }}
      image: {{ hub }}/sidecar:1
  other: quay.io/c/config:v4
---
apiVersion: v1
kind: Secret
data:
  x: quay.io/secret/data:1
---
apiVersion: example.com/v1
kind: Thing
spec:
  proxy: {registry: ghcr.io, repository: o/proxy, tag: '7'}
  version: quay.io/cr/field:v5
  logo: {image: logo}
",
    );
    assert_eq!(names(&found.images), ["11 quay.io/o/operator:v1 image"]);
    assert_eq!(
        names(&found.possible),
        [
            "29 docker.io/envoyproxy/envoy:v1.20 configmap",
            "16 docker.io/jetstack/solver:v3 args",
            "20 docker.io/library/postgres:13 env",
            "42 ghcr.io/o/proxy:7 custom-resource",
            "32 quay.io/c/config:v4 configmap",
            "43 quay.io/cr/field:v5 custom-resource",
            "5 quay.io/m/proxy:v9 metadata",
            "14 quay.io/o/reloader:v2 args",
        ]
    );
}

#[test]
fn pods_that_stay_on_some_machines_want_their_images_for_these() {
    let mut found = found(
        "\
kind: DaemonSet
apiVersion: apps/v1
spec: {template: {spec: {nodeSelector: {beta.kubernetes.io/arch: arm64}, containers: [{image: 'f:arm64', args: [--x-image=y:1]}]}}}
---
kind: DaemonSet
apiVersion: apps/v1
spec:
  template:
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions:
              - {key: kubernetes.io/os, operator: In, values: [linux]}
              - {key: kubernetes.io/arch, operator: In, values: [amd64]}
              - {key: disk, operator: In, values: [ssd]}
            - matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [s390x]}]
      initContainers: [{image: 'f:both'}]
      containers: [{image: 'f:amd64'}]
---
{kind: Pod, spec: {nodeSelector: {kubernetes.io/arch: s390x}, containers: [{image: 'f:s390x'}]}}
---
{kind: Pod, spec: {nodeSelector: {kubernetes.io/os: windows}, containers: [{image: 'f:windows'}]}}
---
kind: Pod
spec:
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchExpressions: [{key: kubernetes.io/arch, operator: NotIn, values: [amd64, s390x]}]}]}}}
  containers: [{image: 'f:both'}]
---
{kind: Pod, spec: {nodeSelector: {disk: ssd}, containers: [{image: 'f:any'}]}}
",
    );
    let archs = |mentions: &[Mention]| -> Vec<String> {
        let archs =
            |mention: &Mention| mention.archs.iter().map(|arch| arch.as_str()).collect::<Vec<_>>().join(",");
        mentions
            .iter()
            .map(|mention| format!("{} {}", mention.reference.tag().unwrap(), archs(mention)))
            .collect()
    };
    assert_eq!(archs(&found.images), ["amd64 amd64", "any amd64,arm64", "arm64 arm64", "both amd64,arm64"]);
    assert_eq!(archs(&found.possible), ["1 arm64"]);
    assert_eq!(archs(&found.foreign), ["s390x ", "windows "]);
    let patterns = ["f:a*", "docker.io/library/f:windows", "f:none"].map(str::to_string);
    assert_eq!(found.exclude(&patterns), ["f:none"]);
    assert_eq!((archs(&found.images).len(), archs(&found.foreign).len()), (1, 1));
}

#[test]
fn schemas_templates_and_comments_are_not_images() {
    let found = found(
        "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  versions:
  - schema:
      properties:
        image: {type: string, default: 'quay.io/x/y:1', description: like quay.io/a/b:2}
        containers: {type: array}
---
apiVersion: v1
kind: Pod
spec:
  containers:
  - image: '{{ .Values.image }}'
  - image: ${HUB}/x:1
  - image: auto
",
    );
    assert_eq!((found.images, found.possible), (vec![], vec![]));
    assert_eq!(found.unfilled.iter().map(|unfilled| unfilled.line).collect::<Vec<_>>(), [14, 15, 16]);
}

#[test]
fn errors_name_file_and_line() {
    let error = discover("a.yaml", b"kind: Pod\nspec:\n  containers:\n  - image: Nginx:1\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "a.yaml:4: `Nginx:1` is not an image reference: a repository's name must be lowercase"
    );
    assert_eq!(error.hint().as_deref(), Some("write `nginx`"));
    let helm =
        discover("t.yaml", b"kind: Pod\nspec:\n  {{- if .Values.x }}\n  a: b\n  {{- end }}\n").unwrap_err();
    assert!(helm.hint().unwrap().contains("helm template"), "{helm}");
}

/// Real addons, with lists that were checked by hand.
#[test]
fn real_addons_as_checked_by_hand() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let data = std::env::var_os("EGGO_TEST_DATA").map_or_else(|| root.join("../shared/data"), Into::into);
    let folder = data.join("addons");
    let Ok(files) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: no test data");
        return;
    };
    let mut checked = 0;
    for file in files.map(|file| file.unwrap().path()).filter(|file| file.extension().is_some()) {
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        let expected = std::fs::read_to_string(folder.join(format!("expected/{stem}.txt"))).unwrap();
        let found = discover(&stem, &std::fs::read(&file).unwrap()).unwrap_or_else(|e| panic!("{stem}: {e}"));
        let line = |mention: &Mention| match mention.place {
            Place::Image => mention.reference.to_string(),
            place => format!("{} {place}", mention.reference),
        };
        let mut lines: Vec<String> = found.images.iter().chain(&found.possible).map(line).collect();
        lines.sort();
        let mut expected: Vec<String> =
            expected.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        expected.sort();
        assert_eq!(lines, expected, "{stem}");
        checked += 1;
    }
    assert!(checked > 0);
}
