package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/erasure"
	"github.com/skald-saga/skald/internal/event/webhook"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/callback"
	"github.com/skald-saga/skald/internal/saga/certification"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/sagabulk"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// problems lists every error code of the API, in the order of docs/problems.md.
var problems = slices.Concat(
	fault.Problems, httpkit.Problems, idempotency.Problems, principal.Problems, access.Problems,
	saga.Problems, callback.Problems, erasure.Problems, sagabulk.Problems, certification.Problems, workflow.Problems,
	registry.Problems, webhook.Problems,
	dlq.Problems, jobrun.Problems,
)

// problemsPage is the page that explains the codes, in the manual of the server that answered.
const problemsPage = "/docs/problems"

// titleOf returns the title of a code, or the status text for an unlisted code. A test ensures that
// all codes are listed.
func titleOf(code string, status int) string {
	if i := slices.IndexFunc(problems, func(k fault.Problem) bool { return k.Code == code }); i >= 0 {
		return problems[i].Title
	}
	return http.StatusText(status)
}

func typeOf(code string) string { return problemsPage + "#" + strings.ToLower(code) }
