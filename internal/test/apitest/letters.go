package apitest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/test/patience"
)

// Kept returns the reason of the only action on a subject, or "" if it has no reason.
func (e *Edge) Kept(kind, subject string) string {
	e.T.Helper()
	var list client.ActionList
	e.Send("GET", "/api/v1/audit?kind="+kind+"&verb=create&subject="+subject, "").Into(&list)
	if len(list.Actions) != 1 {
		e.T.Fatalf("%s %s has the actions %+v, want one", kind, subject, list.Actions)
	}
	if list.Actions[0].Reason == nil {
		return ""
	}
	return *list.Actions[0].Reason
}

// Group returns the fingerprint of the most recently seen group.
func (e *Edge) Group(header ...string) string {
	e.T.Helper()
	var list client.DeadLetterGroupList
	if e.Send("GET", GroupsPath, "", header...).Into(&list); len(list.Groups) == 0 {
		e.T.Fatal("no group is listed")
	}
	return list.Groups[0].Fingerprint
}

// Pushed stores n letters of a topic for a target URL and returns their ids, oldest first. payload
// is a format for the number of each letter.
func (e *Edge) Pushed(topic, url, payload string, n int, header ...string) []uuid.UUID {
	e.T.Helper()
	ids := make([]uuid.UUID, 0, n)
	for first := 0; first < n; first += 500 {
		var letters []string
		for i := first; i < min(n, first+500); i++ {
			letters = append(letters, fmt.Sprintf(`{"original_topic":%q,"error_message":"connection to 10.0.0.%d refused","error_type":"IOError","payload":%s,"target":{"kind":"http","url":%q}}`,
				topic, i%250, fmt.Sprintf(payload, i), url))
		}
		r := e.Send("POST", "/api/v1/dlq/messages/batch", `{"messages":[`+strings.Join(letters, ",")+`]}`, header...)
		var out client.DeadLetterResults
		if r.Into(&out); r.Status != http.StatusOK || len(out.Results) != len(letters) {
			e.T.Fatalf("push: %d %.500s", r.Status, r.Body)
		}
		for _, result := range out.Results {
			if result.Problem != nil {
				e.T.Fatalf("push: %+v", *result.Problem)
			}
			ids = append(ids, *result.ID)
		}
	}
	return ids
}

// Bulk requests a redrive, which must be accepted.
func (e *Edge) Bulk(body string, header ...string) client.Redrive {
	e.T.Helper()
	r := e.Send("POST", RedrivesPath, body, header...)
	var out client.Redrive
	if r.Into(&out); r.Status != http.StatusAccepted || r.Header.Get("Location") != RedrivesPath+"/"+out.ID.String() ||
		r.Header.Get("ETag") != `"1"` {
		e.T.Fatalf("redrive %s: %d %v %s", body, r.Status, r.Header, r.Body)
	}
	return out
}

// Until reads a redrive until the function is returns true for it.
func (e *Edge) Until(id uuid.UUID, what string, is func(client.Redrive) bool) (out client.Redrive) {
	e.T.Helper()
	patience.Until(e.T, "the redrive is "+what, func() bool {
		out = client.Redrive{}
		e.Send("GET", RedrivesPath+"/"+id.String(), "").Into(&out)
		return is(out)
	})
	return out
}

// Wants2xx fails the test unless the response is a success.
func (r Reply) Wants2xx() {
	r.T.Helper()
	if r.Status/100 != 2 {
		r.T.Fatalf("%d %s", r.Status, r.Body)
	}
}

// Letter decodes a response as a letter.
func (r Reply) Letter(status int) client.DeadLetter {
	r.T.Helper()
	if r.Status != status {
		r.T.Fatalf("%d %s, want %d", r.Status, r.Body, status)
	}
	var l client.DeadLetter
	r.Into(&l)
	return l
}

// Messages decodes a response as a list of letters.
func (r Reply) Messages() client.DeadLetterList {
	r.T.Helper()
	if r.Status != http.StatusOK {
		r.T.Fatalf("%d %s", r.Status, r.Body)
	}
	var list client.DeadLetterList
	r.Into(&list)
	return list
}

const GroupsPath = "/api/v1/dlq/groups"

const RedrivesPath = "/api/v1/dlq/redrives"

// Verified verifies the seals of a trail.
func Verified(record trail.Sealed) func(context.Context, uuid.UUID, int64, int) (trail.Verification, error) {
	return func(ctx context.Context, tenant uuid.UUID, from int64, limit int) (trail.Verification, error) {
		return audit.Verify(ctx, record, tenant, from, limit)
	}
}
