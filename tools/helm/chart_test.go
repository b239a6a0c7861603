// Package helm tests the Helm chart with Helm itself: lint, templates with every set of values in ci/, and each object
// decoded strictly into the Kubernetes API types, so that a member at the wrong place is an error and not ignored.
package helm

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	sigsyaml "sigs.k8s.io/yaml"
)

const chart = "../../deploy/chart/skald"

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, messages bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"tool", "helm"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &messages
	err := cmd.Run()
	if err != nil {
		return out.String() + messages.String(), err
	}
	return out.String(), nil
}

func TestTheChartIsWhatKubernetesExpects(t *testing.T) {
	sets, err := filepath.Glob(filepath.Join(chart, "ci", "*.yaml"))
	if err != nil || len(sets) < 3 {
		t.Fatalf("%d sets of values, %v", len(sets), err)
	}
	for _, values := range sets {
		t.Run(filepath.Base(values), func(t *testing.T) {
			if out, err := helm(t, "lint", "--strict", "--values", values, chart); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			out, err := helm(t, "template", "orders", "--namespace", "sagas", "--values", values, chart)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			objects := decode(t, out)
			deployment := only[*appsv1.Deployment](t, objects)
			checkPod(t, &deployment.Spec.Template.Spec)
			job := only[*batchv1.Job](t, objects)
			checkPod(t, &job.Spec.Template.Spec)
			checkSelectors(t, objects, deployment, job)
			pod := deployment.Spec.Template.Spec.Containers[0]
			if pod.LivenessProbe.HTTPGet.Path != "/healthz" || pod.ReadinessProbe.HTTPGet.Path != "/readyz" {
				t.Errorf("probes: %+v, %+v", pod.LivenessProbe, pod.ReadinessProbe)
			}
		})
	}
}

// TestTheChartRefusesWhatItDoesNotKnow holds values.schema.json to its purpose: a mistake is an error before anything is
// installed.
func TestTheChartRefusesWhatItDoesNotKnow(t *testing.T) {
	const good = "database.url=postgres://skald@db/skald"
	for name, set := range map[string]string{
		"no database":                 "replicas=2",
		"a member that is not known":  good + ",replicaCount=2",
		"one below":                   good + ",image.name=skald",
		"a number that is a word":     good + ",replicas=two",
		"a pull policy of no cluster": good + ",image.pullPolicy=Sometimes",
		"no URL":                      "database.url=db:5432",
		"an interval without a unit":  good + ",serviceMonitor.interval=abc",
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := helm(t, "template", "orders", "--set", set, chart); err == nil {
				t.Errorf("accepted:\n%s", out)
			}
		})
	}
	if out, err := helm(t, "template", "orders", "--set", good, chart); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// decode decodes every object strictly. Those of the Prometheus operator are no part of Kubernetes: of them only the
// form is checked.
func decode(t *testing.T, text string) (objects []runtime.Object) {
	t.Helper()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, doc := range strings.Split(text, "\n---\n") {
		if strings.TrimSpace(stripComments(doc)) == "" {
			continue
		}
		if strings.Contains(doc, "monitoring.coreos.com/v1") {
			var any map[string]any
			if err := sigsyaml.UnmarshalStrict([]byte(doc), &any); err != nil || any["spec"] == nil {
				t.Errorf("%v\n%s", err, doc)
			}
			continue
		}
		object, _, err := strict.Decode([]byte(doc), nil, nil)
		if err != nil {
			t.Errorf("%v\n%s", err, doc)
			continue
		}
		objects = append(objects, object)
	}
	return objects
}

func stripComments(doc string) string {
	lines := slices.DeleteFunc(strings.Split(doc, "\n"), func(l string) bool { return strings.HasPrefix(l, "#") || l == "---" })
	return strings.Join(lines, "\n")
}

func only[T runtime.Object](t *testing.T, objects []runtime.Object) (found T) {
	t.Helper()
	n := 0
	for _, o := range objects {
		if typed, ok := o.(T); ok {
			found, n = typed, n+1
		}
	}
	if n != 1 {
		t.Fatalf("%d objects of type %T", n, found)
	}
	return found
}

// checkPod checks what the restricted Pod Security Standard wants, and that the program may not write.
func checkPod(t *testing.T, pod *corev1.PodSpec) {
	t.Helper()
	if s := pod.SecurityContext; s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil {
		t.Errorf("security of the pod: %+v", s)
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the pod gets a token of the cluster, which Skald never uses")
	}
	for _, c := range pod.Containers {
		s := c.SecurityContext
		if s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil ||
			*s.AllowPrivilegeEscalation || s.Capabilities == nil || len(s.Capabilities.Drop) != 1 {
			t.Errorf("security of %s: %+v", c.Name, s)
		}
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
			t.Errorf("resources of %s: %+v", c.Name, c.Resources)
		}
	}
}

// checkSelectors checks that the service and the budget select the pods of the nodes, and not that of the migration.
func checkSelectors(t *testing.T, objects []runtime.Object, nodes *appsv1.Deployment, migration *batchv1.Job) {
	t.Helper()
	matches := func(selector, labels map[string]string) bool {
		for k, v := range selector {
			if labels[k] != v {
				return false
			}
		}
		return len(selector) > 0
	}
	for name, selector := range map[string]map[string]string{
		"service":    only[*corev1.Service](t, objects).Spec.Selector,
		"deployment": nodes.Spec.Selector.MatchLabels,
	} {
		if !matches(selector, nodes.Spec.Template.Labels) || matches(selector, migration.Spec.Template.Labels) {
			t.Errorf("the selector of the %s, %v, does not select the nodes alone", name, selector)
		}
	}
}
