package openapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/principal"
)

// Problems are the codes with which an operation may answer, by status.
type Problems map[string][]string

func (p Problems) add(status int, codes ...string) {
	key := strconv.Itoa(status)
	for _, code := range codes {
		if !slices.Contains(p[key], code) {
			p[key] = append(p[key], code)
		}
	}
}

// Has reports whether the operation may answer with this status and code.
func (p Problems) Has(status int, code string) bool {
	return slices.Contains(p[strconv.Itoa(status)], code)
}

// problemsOf derives from the contract the codes with which the checks in front of an operation may
// answer, and adds the codes that the operation lists in x-problems.
func problemsOf(doc object, path, method string, item, op object) Problems {
	p := Problems{}
	p.add(http.StatusBadRequest, httpkit.CodeTwoLengths, httpkit.CodeUnknownParameter, httpkit.CodeInvalidParameter)
	p.add(http.StatusRequestHeaderFieldsTooLarge, httpkit.CodeManyHeaders)
	p.add(http.StatusInternalServerError, httpkit.CodeInternal)
	p.add(http.StatusServiceUnavailable, fault.CodeUnavailable)
	if strings.HasPrefix(path, "/api/") {
		p.ofCallers(op)
	}
	switch featureOf(doc, op) {
	case "dead-letters":
		p.add(http.StatusServiceUnavailable, dlq.CodeUnavailable)
	case "job-runs":
		p.add(http.StatusServiceUnavailable, jobrun.CodeUnavailable)
	}
	p.ofParameters(doc, append(item.list("parameters"), op.list("parameters")...), op)
	if method != "get" {
		p.ofBodies(doc, op)
	}
	own := op.object("x-problems")
	for _, status := range own.names() {
		code, _ := strconv.Atoi(status)
		for _, v := range own.list(status) {
			p.add(code, v.(string))
		}
	}
	return p
}

// ofCallers adds the codes of the credential check and of a process without the role api.
func (p Problems) ofCallers(op object) {
	p.add(http.StatusUnauthorized, principal.CodeRequired, principal.CodeInvalid)
	p.add(http.StatusForbidden, httpkit.CodeCrossSite, principal.CodeTenantMismatch)
	if op["x-permission"] != "anybody" {
		p.add(http.StatusForbidden, principal.CodeForbidden)
	}
	p.add(http.StatusNotFound, httpkit.CodeNotFound)
	p.add(http.StatusTooManyRequests, httpkit.CodeRateLimited)
}

func (p Problems) ofParameters(doc object, parameters []any, op object) {
	for _, v := range parameters {
		switch at := resolved(doc, v); at["name"] {
		case "Idempotency-Key":
			p.add(http.StatusConflict, idempotency.CodeInUse, httpkit.CodeAnswerNotKept)
			p.add(http.StatusUnprocessableEntity, idempotency.CodeUsed)
		case "If-Match":
			if op["x-if-match"] != "optional" {
				p.add(http.StatusPreconditionRequired, httpkit.CodeIfMatch)
			}
		}
	}
}

// ofBodies adds the codes for reading a body. They also apply to operations without a body, because
// a client may send one anyway.
func (p Problems) ofBodies(doc object, op object) {
	p.add(http.StatusBadRequest, httpkit.CodeUnreadable)
	p.add(http.StatusRequestTimeout, httpkit.CodeTooSlow)
	p.add(http.StatusUnsupportedMediaType, httpkit.CodeEncoding)
	if op["requestBody"] == nil {
		p.add(http.StatusUnprocessableEntity, httpkit.CodeSchema)
		return
	}
	p.add(http.StatusUnsupportedMediaType, httpkit.CodeMediaType)
	p.add(http.StatusRequestEntityTooLarge, fault.CodeTooLarge)
	p.add(http.StatusBadRequest, httpkit.CodeInvalidUTF8)
	body := resolved(doc, op["requestBody"])
	if body.object("content")["application/json"] != nil {
		p.add(http.StatusBadRequest, httpkit.CodeInvalidJSON, httpkit.CodeDuplicateKey, httpkit.CodeTooDeep,
			httpkit.CodeNUL)
		p.add(http.StatusUnprocessableEntity, httpkit.CodeSchema)
	}
}

// featureOf returns the x-feature of the operation, or of its tag.
func featureOf(doc, op object) string {
	if own, ok := op["x-feature"].(string); ok {
		return own
	}
	for _, v := range doc.list("tags") {
		tag, _ := v.(object)
		if slices.Contains(op.list("tags"), tag["name"]) {
			if word, ok := tag["x-feature"].(string); ok {
				return word
			}
		}
	}
	return ""
}

// nameOfStatus returns the name of the response that all problems with the same status share.
func nameOfStatus(status string) string {
	code, _ := strconv.Atoi(status)
	return strings.ReplaceAll(http.StatusText(code), " ", "")
}

// withProblems lists at each operation the problems with which it may answer. The codes for a
// status are in the description for readers, and in x-problems for programs.
func withProblems(doc object) {
	responses := doc.object("components").object("responses")
	failure := responses.object("Failure")
	for at := range operations(doc) {
		p := problemsOf(doc, at.path, at.method, at.item, at.op)
		listed := object{}
		answers := at.op.object("responses")
		for status, codes := range p {
			name := nameOfStatus(status)
			if responses[name] == nil {
				code, _ := strconv.Atoi(status)
				shared := object{}
				for k, v := range failure {
					shared[k] = v
				}
				shared["description"] = http.StatusText(code) + "."
				responses[name] = shared
			}
			all := make([]any, len(codes))
			for i, code := range codes {
				all[i] = code
			}
			listed[status] = all
			answers[status] = object{
				"$ref": "#/components/responses/" + name, "description": "`" + strings.Join(codes, "`, `") + "`",
			}
		}
		at.op["x-problems"] = listed
	}
}
