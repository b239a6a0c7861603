package httpapi

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/skald-saga/skald/internal/httpkit"
)

// GuardOf returns the guard of an operation with this security and permission, in JSON.
func GuardOf(t *testing.T, path, security, permission string) error {
	t.Helper()
	var op openapi3.Operation
	text := `{"responses":{},"security":` + security
	if permission != "null" {
		text += `,"x-permission":` + permission
	}
	if err := json.Unmarshal([]byte(text+`}`), &op); err != nil {
		t.Fatal(err)
	}
	rt := route{name: path}
	return rt.guard(path, &op, nil)
}

// Cover redacts the member payload in the body of a response.
func Cover(body any) (covered any, ok bool) { return httpkit.Redactor{"payload": true}.Redact(body) }

// Veiled lists the members that are redacted for callers without payloads:read.
func Veiled(t *testing.T) []string {
	t.Helper()
	c, err := loadContract(httpkit.Limits{}, "")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(c.redactor))
}
