package app_test

import (
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/config"
)

func TestAForbiddenEndpointIsRefusedAtRegistration(t *testing.T) {
	t.Parallel()
	_, n := inMemory(t, func(c *config.Config) { c.Egress.Allow = []string{"127.0.0.1:18000", "*.example.com"} })
	const steps = `[{"name": "a", "action": {"http": {"url": "http://127.0.0.1:18000/a"}}, "compensation": "none"},
		{"name": "b", "action": {"http": {"url": "http://127.0.0.1:18000/b"}}, "compensation": {"http": {"url": "URL"}}}]`
	const turned = `[{"name": "b", "depends_on": ["a"], "action": {"http": {"url": "URL"}}, "compensation": "none"},
		{"name": "a", "action": {"http": {"url": "http://127.0.0.1:18000/a"}}, "compensation": "none"}]` // a runs first
	for _, kind := range []struct{ name, path, body, code, pointer string }{
		{"workflow", "/api/v1/workflows", `{"name": "order", "steps": ` + steps + `}`, "WORKFLOW_URL_NOT_ALLOWED", "/steps/1/compensation/http/url"},
		{"validated workflow", "/api/v1/workflows/validate", `{"name": "order", "steps": ` + steps + `}`, "WORKFLOW_URL_NOT_ALLOWED", "/steps/1/compensation/http/url"},
		{"workflow in another order", "/api/v1/workflows", `{"name": "turned", "steps": ` + turned + `}`, "WORKFLOW_URL_NOT_ALLOWED", "/steps/0/action/http/url"},
		{"saga with steps", "/api/v1/sagas", `{"steps": ` + steps + `}`, "WORKFLOW_URL_NOT_ALLOWED", "/steps/1/compensation/http/url"},
		{"webhook", "/api/v1/webhooks", `{"url": "URL"}`, "WEBHOOK_", "/url"},
	} {
		for _, url := range []string{
			"http://169.254.169.254/latest", "http://[::ffff:a9fe:a9fe]/", "http://0xa9fea9fe/", "http://2852039166/",
			"http://0251.0376.0251.0376/", "http://１６９.254.169.254/", "http://0x7f000001:18000/", "http://0177.0.0.1:18000/",
			"http://127.1:18000/", "http://[::1]:18000/", "http://127.0.0.1:18001/",
			"http://a.example.com:0/", "http://a.example.com:22/", "http://a.example.com:25/", "http://a.example.com:5432/",
		} {
			status, doc := call(t, "POST", n.url+kind.path, strings.ReplaceAll(kind.body, "URL", url))
			code, _ := doc["code"].(string)
			errors, _ := doc["errors"].([]any)
			if status != 422 || !strings.HasPrefix(code, kind.code) || len(errors) != 1 ||
				errors[0].(map[string]any)["pointer"] != kind.pointer {
				t.Errorf("%s to %s: %d %v", kind.name, url, status, doc)
			}
		}
		if status, doc := call(t, "POST", n.url+kind.path,
			strings.ReplaceAll(kind.body, "URL", "http://a.example.com/")); status >= 300 {
			t.Errorf("%s to what may be called: %d %v", kind.name, status, doc)
		}
	}
}
