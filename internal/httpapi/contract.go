package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-chi/chi/v5"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpapi/openapi"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/principal"
)

// contract is openapi.yaml, prepared for checking requests.
type contract struct {
	doc      *openapi3.T
	routes   map[routeKey]*route
	redactor httpkit.Redactor
	letter   *openapi3.Schema // schema of a pushed message, whose texts an import may have to mend
	json     []byte           // the published contract
	etag     string
	yaml     func() ([]byte, error) // the same in YAML, generated when first requested
}

type routeKey struct{ method, path string }

// route is the contract's definition of the query and the body of one operation.
type route struct {
	name         string               // method and path template
	operation    string               // operationId
	open         bool                 // requires no credential
	permission   principal.Permission // required permission; "": only a valid credential
	query        map[string]bool      // known parameters; true: repeatable
	media        []string             // media types of the body; nil: no body
	bodyRequired bool
	bodyAtLeast  int64         // minimum for bodyLimit, set by the contract regardless of the configuration
	bodyLimit    int64         // maximum size of the body in bytes
	keeps        bool          // responses are stored with the Idempotency-Key
	guarded      guarded       // when If-Match is required
	read         string        // the GET that returns the ETag for If-Match
	stream       bool          // the handler reads the body as it arrives
	body         *httpkit.Body // schema of a JSON body; nil: the handler checks the body
	list         *httpkit.List // list whose items are judged separately; nil: none
	deprecated   http.Header   // headers that announce the end of a deprecated operation; nil: not deprecated
	feature      string        // deadLetters or jobRuns, which may not be configured; "": always available
	parameters   []parameter   // parameters in path, query and headers
	checked      routers.Route // for the validator of parameters
	// together finds mistakes in the body that the schema does not catch; if nil, only the schema is checked.
	together func(body []byte, wrong func(pointer string) bool) []fault.Field
}

// ownRoot is the server URL in the embedded contract.
const ownRoot = `"servers":[{"url":"/"}]`

// loadContract returns the embedded contract with the configured limits, served below base.
func loadContract(l httpkit.Limits, base string) (*contract, error) {
	read, err := embedded()
	if err != nil {
		return nil, err
	}
	c := *read
	if base != "" {
		c.json = bytes.Replace(c.json, []byte(ownRoot), []byte(strings.Replace(ownRoot, "/", base, 1)), 1)
		c.etag = etagOf(c.json)
	}
	c.yaml = sync.OnceValues(func() ([]byte, error) { return openapi.YAML(c.json) })
	c.routes = make(map[routeKey]*route, len(read.routes))
	for key, rt := range read.routes {
		here := *rt
		here.bodyLimit = max(l.MaxBodyBytes, rt.bodyAtLeast)
		if slices.Contains(rt.media, httpkit.MediaYAML) {
			here.bodyLimit = l.MaxWorkflowBytes
		}
		c.routes[key] = &here
	}
	return &c, nil
}

// embedded parses the embedded contract once per process. Tests start many servers in one process,
// and parsing takes a tenth of a second of CPU time, or ten times as much under the race detector.
// The result must not be modified.
var embedded = sync.OnceValues(func() (*contract, error) {
	doc, err := api.GetSpec()
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background(), openapi3.SetRegexCompiler(httpkit.MatcherOf)); err != nil {
		return nil, err
	}
	relax(doc)
	c := &contract{doc: doc, routes: map[routeKey]*route{}, redactor: httpkit.NewRedactor(doc),
		letter: doc.Components.Schemas["DeadLetterInput"].Value}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			rt := newRoute(method, path, item, op)
			if rt.body != nil {
				rt.list = httpkit.ListOf(rt.body.Schema, doc.Components.Schemas["AnyJSON"])
			}
			if rt.guarded, rt.read, err = guardOf(doc, path, op); err != nil {
				return nil, fmt.Errorf("%s: %w", rt.name, err)
			}
			if err := rt.partOf(doc.Tags, op); err != nil {
				return nil, err
			}
			if rt.deprecated, err = announcement(op); err != nil {
				return nil, fmt.Errorf("%s: %w", rt.name, err)
			}
			if err := rt.guard(path, op, doc.Security); err != nil {
				return nil, err
			}
			rt.checked = routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: op}
			c.routes[routeKey{method, path}] = rt
			op.Security = nil // authorize checks this before the validator runs
		}
	}
	doc.Security = nil
	c.json, err = openapi.Contract()
	if err != nil {
		return nil, err
	}
	c.etag = etagOf(c.json)
	return c, nil
})

func etagOf(doc []byte) string {
	sum := sha256.Sum256(doc)
	return `W/"` + hex.EncodeToString(sum[:16]) + `"`
}

// anybody is the x-permission of operations that require only a valid credential.
const anybody = "anybody"

// ofCallback is the x-credential of operations whose only credential is the token in the path,
// which the handler checks.
const ofCallback = "callback"

// guard reads the permission that the operation requires. Nothing under /api/v1 is public: an
// operation without x-permission or x-credential is a mistake in the contract.
func (rt *route) guard(path string, op *openapi3.Operation, all openapi3.SecurityRequirements) error {
	if op.Security != nil {
		all = *op.Security
	}
	word, declared := op.Extensions["x-permission"].(string)
	rt.open = !declared && (!strings.HasPrefix(path, "/api/") || op.Extensions["x-credential"] == ofCallback)
	if word != anybody {
		rt.permission = principal.Permission(word)
	}
	switch {
	case rt.open == (len(all) > 0):
		return fmt.Errorf("%s: security says %v, so x-permission must too", rt.name, all)
	case !rt.open && word != anybody && !rt.permission.Known():
		return fmt.Errorf("%s: x-permission %q is not a permission", rt.name, word)
	}
	return nil
}

// Features that a deployment may lack: the x-feature of tags and operations.
const (
	deadLetters = "dead-letters"
	jobRuns     = "job-runs"
	always      = "none" // for an operation that is always available, unlike the others with its tag
)

// partOf reads the feature that the operation belongs to: its own x-feature, or else that of its
// tags.
func (rt *route) partOf(tags openapi3.Tags, op *openapi3.Operation) error {
	for _, name := range op.Tags {
		if tag := tags.Get(name); tag != nil && tag.Extensions["x-feature"] != nil {
			rt.feature, _ = tag.Extensions["x-feature"].(string)
		}
	}
	if own, ok := op.Extensions["x-feature"].(string); ok {
		rt.feature = own
	}
	switch rt.feature {
	case always:
		rt.feature = ""
	case "", deadLetters, jobRuns:
	default:
		return fmt.Errorf("%s: x-feature %q is not a feature", rt.name, rt.feature)
	}
	return nil
}

// definition is a body that is checked by its handler, because the rules for workflows return codes
// and messages that a schema violation would hide.
const definition = "#/components/schemas/WorkflowInput"

// relax removes the schemas of hand-checked bodies from what the validator enforces.
func relax(doc *openapi3.T) {
	free := doc.Components.Schemas["AnyJSON"]
	doc.Components.Schemas["SagaInput"].Value.Properties["steps"] = free
	doc.Components.Schemas["SimulationInput"].Value.Properties["definition"] = free
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			if op.RequestBody == nil {
				continue
			}
			if m := op.RequestBody.Value.Content[httpkit.MediaJSON]; m != nil && m.Schema.Ref == definition {
				m.Schema = nil
			}
		}
	}
}

func newRoute(method, path string, item *openapi3.PathItem, op *openapi3.Operation) *route {
	rt := &route{name: method + " " + path, operation: op.OperationID, query: map[string]bool{}}
	if most, ok := op.Extensions["x-max-body-bytes"].(float64); ok { // for bodies that contain many records
		rt.bodyAtLeast = int64(most)
	}
	rt.stream, _ = op.Extensions["x-stream"].(bool)
	for _, list := range []openapi3.Parameters{item.Parameters, op.Parameters} {
		for _, p := range list {
			rt.keeps = rt.keeps || p.Ref == keptKey
			rt.parameters = append(rt.parameters, parameterOf(p.Value))
			if p.Value.In == openapi3.ParameterInQuery {
				rt.query[p.Value.Name] = p.Value.Schema.Value.Type.Is(openapi3.TypeArray)
			}
		}
	}
	if op.RequestBody == nil {
		return rt
	}
	rt.bodyRequired = op.RequestBody.Value.Required
	for media, m := range op.RequestBody.Value.Content {
		rt.media = append(rt.media, media)
		if media == httpkit.MediaJSON && m.Schema != nil {
			rt.body, rt.together = httpkit.BodyOf(m.Schema.Value), together[m.Schema.Ref]
		}
	}
	if method == http.MethodPatch && slices.Contains(rt.media, httpkit.MediaJSON) {
		rt.media = append(rt.media, mergePatch) // the generated code treats it as JSON
	}
	return rt
}

// mergePatch is the media type of the bodies of our PATCH operations (RFC 7396).
const mergePatch = "application/merge-patch+json"

// routeOf returns the route of the operation that chi has selected.
func (c *contract) routeOf(ctx context.Context, method string) *route {
	rt := c.routes[routeKey{method, chi.RouteContext(ctx).RoutePattern()}]
	if rt == nil {
		panic(fmt.Sprintf("httpapi: the contract has no %s %s", method, chi.RouteContext(ctx).RoutePattern()))
	}
	return rt
}

// parameter is a compiled parameter of an operation.
type parameter struct {
	in, name string
	required bool
	shape    *httpkit.Shape // nil: the contract's validator must judge it
}

func parameterOf(p *openapi3.Parameter) parameter {
	c := parameter{in: p.In, name: p.Name, required: p.Required}
	if p.In == openapi3.ParameterInHeader {
		c.name = http.CanonicalHeaderKey(p.Name)
	}
	if p.Schema != nil && p.Content == nil && p.Style == "" && p.Schema.Value.Type.Is(openapi3.TypeString) {
		c.shape = httpkit.ShapeOf(p.Schema.Value)
	}
	return c
}
