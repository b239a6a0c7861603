package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/skald-saga/skald/internal/httpapi/openapi"
)

// OpenapiYAML returns the contract as people edit it. It is read only once, so callers must not modify
// it.
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

// loadYAML reads openapi.yaml from the root of the module, whichever of its directories the test
// runs in.
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

// Texts converts values to strings.
func Texts[T ~string](values []T) []string {
	var out []string
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}

// contractRouter finds the contract's operation for a response.
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
	openapi3filter.RegisterBodyDecoder("application/xml", wellFormed)
	return gorillamux.NewRouter(doc)
})

// wellFormed checks that a body is XML and returns it as text, which is how the contract describes
// it.
func wellFormed(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		switch _, err := d.Token(); {
		case errors.Is(err, io.EOF):
			return string(text), nil
		case err != nil:
			return nil, err
		}
	}
}

// contractChecker fails the test on a response that the contract doesn't describe.
type contractChecker struct {
	t      *testing.T
	next   http.RoundTripper
	router routers.Router
}

func (c *contractChecker) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent []byte
	if req.Body != nil && req.GetBody != nil {
		if again, err := req.GetBody(); err == nil {
			sent, _ = io.ReadAll(again) // used only for an example
		}
	}
	res, err := c.next.RoundTrip(req)
	if err != nil {
		return res, err
	}
	if id := res.Header.Get("X-Request-Id"); id == "" || len(id) > 128 {
		c.t.Errorf("%s %s: X-Request-Id = %q", req.Method, req.URL.Path, id)
	}
	route, params, err := c.router.FindRoute(req)
	if err != nil {
		return res, nil // 404 and 405 belong to no operation of the contract
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
		c.t.Errorf("%s %s: response %d violates the contract: %v\n%s", req.Method, req.URL.Path, res.StatusCode, err, body)
	}
	operation := route.Operation.OperationID
	media, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	switch {
	case res.StatusCode >= 400:
		listed(c.t, operation, res.StatusCode, body)
	case res.StatusCode >= 200 && res.StatusCode < 300 && media == "application/json" && err == nil:
		exemplify(c.t, operation, res.StatusCode, sent, body)
	}
	return res, nil
}

// listed fails the test on a problem that the contract doesn't list for its operation.
func listed(t *testing.T, operation string, status int, body []byte) {
	all, err := openapi.OfOperations()
	if err != nil {
		t.Error(err)
		return
	}
	var problem struct{ Code string }
	if json.Unmarshal(body, &problem) != nil || problem.Code == "" {
		return // not a problem document: the validation has already reported it
	}
	if !all[operation].Has(status, problem.Code) {
		t.Errorf("%s answered %d %s, which the contract does not list: add it to the operation's x-problems",
			operation, status, problem.Code)
	}
}
