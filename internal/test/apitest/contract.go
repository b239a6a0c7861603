package apitest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// OpenapiYAML is the contract as people edit it, read once: it must not be modified.
func OpenapiYAML(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := readYAML()
	if err != nil {
		t.Fatalf("openapi.yaml: %v", err)
	}
	return doc
}

var readYAML = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := loadYAML()
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

// loadYAML reads openapi.yaml at the root of the module, wherever below the test runs.
func loadYAML() (*openapi3.T, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for {
		path := filepath.Join(dir, "openapi.yaml")
		if _, err := os.Stat(path); err == nil {
			return openapi3.NewLoader().LoadFromFile(path)
		} else if dir == filepath.Dir(dir) {
			return nil, err
		}
		dir = filepath.Dir(dir)
	}
}

// Texts are words as text.
func Texts[T ~string](values []T) []string {
	var out []string
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}

// contractRouter finds the operations that answers are of.
func contractRouter(t *testing.T) routers.Router {
	t.Helper()
	router, err := readRouter()
	if err != nil {
		t.Fatalf("read the contract: %v", err)
	}
	return router
}

var readRouter = sync.OnceValues(func() (routers.Router, error) {
	doc, err := loadYAML()
	if err != nil {
		return nil, err
	}
	doc.Servers = nil
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.PlainBodyDecoder)
	return gorillamux.NewRouter(doc)
})

// contractChecker fails the test on an answer that the contract does not have.
type contractChecker struct {
	t      *testing.T
	next   http.RoundTripper
	router routers.Router
}

func (c *contractChecker) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := c.next.RoundTrip(req)
	if err != nil {
		return res, err
	}
	if id := res.Header.Get("X-Request-Id"); id == "" || len(id) > 128 {
		c.t.Errorf("%s %s: X-Request-Id = %q", req.Method, req.URL.Path, id)
	}
	route, params, err := c.router.FindRoute(req)
	if err != nil {
		return res, nil // no operation of the contract: 404 and 405
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return res, err
	}
	err = openapi3filter.ValidateResponse(req.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
		Status:                 res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	if err != nil {
		c.t.Errorf("%s %s answered %d against the contract: %v\n%s", req.Method, req.URL.Path, res.StatusCode, err, body)
	}
	return res, nil
}
