package dlqapi_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
)

func TestEveryFilterOfTheListFindsMatchingLetters(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	saga, run := uuid.NewString(), uuid.NewString()
	a := q.push(`{"original_topic":"orders.eu","error_message":"Timeout while calling the bank","error_type":"T1","error_class":"TRANSIENT","consumer_group":"g1","key":"k1",
		"headers":[{"name":"h","value":"x=1"},{"name":"other","value":"y"}],"payload":{"order":{"customer":"c-17"},"total":12.5},"correlation_id":"c1","trace_id":"t1","labels":["red","big"],
		"saga_id":"` + saga + `","job_run_id":"` + run + `"}`)
	between := time.Now().UTC()
	b := q.push(q.toTarget(`"error_type":"T2","error_class":"PERMANENT","max_retries":9,"key_base64":"AP8="`))
	c := q.push(`{"original_topic":"orders","error_message":"refused","max_retries":0}`)
	q.target.answer(500)
	q.Send("POST", at(b)+"/retry", "").Wants(502, "DLQ_PROCESS_FAILED")
	q.Send("PATCH", at(c), `{"assignee":"ann"}`).Letter(200)
	name := map[uuid.UUID]string{a.ID: "a", b.ID: "b", c.ID: "c"}
	for query, want := range map[string]string{
		"":                                "cba",
		"order=asc":                       "abc",
		"status=PENDING":                  "ba",
		"status=PENDING&status=DEAD":      "cba",
		"status=RETRYING":                 "",
		"topic=orders":                    "cb",
		"topic=orders.*":                  "a",
		"topic=orders*":                   "cba",
		"fingerprint=" + a.Fingerprint:    "a",
		"error_type=T2":                   "b",
		"error_class=TRANSIENT":           "a",
		"error_contains=BANK timeout":     "a",
		"error_contains=ban":              "",
		"consumer_group=g1":               "a",
		"key=k1":                          "a",
		"key_base64=AP8%3D":               "b",
		"header=h=x=1":                    "a",
		"header=h=x":                      "",
		"header=h=x=1&header=other=y":     "a",
		"header=h=x=1&header=other=z":     "",
		"payload=order.customer=c-17":     "a",
		"payload=total=12.5":              "a",
		"payload=total=13":                "",
		"created_to=" + rfc(between):      "a",
		"created_from=" + rfc(between):    "cb",
		"last_retry_from=" + rfc(between): "b",
		"last_retry_to=" + rfc(between):   "",
		"retry_count_min=1":               "b",
		"retry_count_max=0":               "ca",
		"resolution=EXHAUSTED":            "c",
		"generation_min=1":                "",
		"source=REST":                     "cba",
		"source=KAFKA&source=SAGA":        "",
		"saga_id=" + saga:                 "a",
		"job_run_id=" + run:               "a",
		"correlation_id=c1":               "a",
		"trace_id=t1":                     "a",
		"label=red":                       "a",
		"label=red&label=big":             "a",
		"label=red&label=small":           "",
		"assignee=ann":                    "c",
		"root_id=" + b.ID.String():        "b",
		"redrive_id=" + uuid.NewString():  "",
		"topic=orders&status=DEAD":        "c",
	} {
		list := q.Send("GET", letters+"?"+strings.ReplaceAll(query, " ", "%20"), "").Messages()
		got := ""
		for _, l := range list.Messages {
			got += name[l.ID]
		}
		if got != want || *list.Pagination.TotalCount != int64(len(want)) {
			t.Errorf("%s found %q and counted %d, want %q", query, got, *list.Pagination.TotalCount, want)
		}
	}
	basic := q.Send("GET", letters+"?topic=orders.eu", "").Messages().Messages[0]
	full := q.Send("GET", letters+"?topic=orders.eu&view=full", "").Messages().Messages[0]
	if basic.Payload != nil || basic.Headers != nil || basic.Key != nil || basic.PayloadBytes != nil {
		t.Errorf("without view=full: %+v", basic)
	}
	if diff := cmp.Diff(q.Send("GET", at(a), "").Letter(200), full); diff != "" {
		t.Errorf("(-alone +with view=full):\n%s", diff)
	}
}

func rfc(t time.Time) string { return url.QueryEscape(t.Format(time.RFC3339Nano)) }

func TestInvalidFiltersAreRefused(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for query, code := range map[string]string{
		"colour=red": "REQ_UNKNOWN_PARAMETER", "header.h=x": "REQ_UNKNOWN_PARAMETER", "sort=x": "REQ_UNKNOWN_PARAMETER",
	} {
		q.Send("GET", letters+"?"+query, "").Wants(400, code)
	}
	for _, query := range []string{
		"status=OPEN", "topic=", "topic=a&topic=b", "fingerprint=xyz", "error_class=BAD", "resolution=GONE",
		"source=MARS", "saga_id=1",
		"saga_id=00000000-0000-0000-0000-000000000000", "created_from=yesterday", "created_from=2020-01-01",
		"created_to=2016-12-31T23:59:60Z", "created_to=2016-12-31T23:59:59", "last_retry_to=9999-12-31T23:59:59-01:00",
		"created_from=2026-02-02T00:00:00Z&created_to=2026-01-01T00:00:00Z",
		"last_retry_from=2026-02-02T00:00:00Z&last_retry_to=2026-01-01T00:00:00Z",
		"created_from=0001-01-01T00:00:00Z", "created_from=2026-99-99T00:00:00Z",
		"retry_count_min=-1", "retry_count_max=x", "generation_min=1.5", "key=a&key_base64=AA%3D%3D", "key_base64=%21",
		"header=h", "header=%3Dx",
		"header=h=1&header=h=2", "payload=x", "label=", "order=up", "view=all", "page=1&cursor=x", "cursor=AAAA", "page=0",
		"page_size=201", "page=10000&page_size=200",
		"assignee=%00",
	} {
		q.Send("GET", letters+"?"+query, "").Wants(400, "REQ_INVALID_PARAMETER")
	}
}

func TestPagesMissAndRepeatNothing(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	var want []uuid.UUID
	for range 7 {
		want = append(want, q.push(`{"original_topic":"orders","error_message":"boom"}`).ID)
	}
	q.push(`{"original_topic":"other","error_message":"boom"}`)
	for path, newestFirst := range map[string]bool{letters + "?topic=orders": true,
		letters + "?topic=orders&order=asc": false, topicPath("orders") + "?status=PENDING": true} {
		for _, mode := range []string{"page", "cursor"} {
			var got []uuid.UUID
			next := path + "&page_size=3&page=1"
			for n := 2; next != ""; n++ {
				list := q.Send("GET", next, "").Messages()
				for _, l := range list.Messages {
					got = append(got, l.ID)
				}
				switch {
				case !list.Pagination.HasNext:
					next = ""
				case mode == "page":
					next = path + "&page_size=3&page=" + string(rune('0'+n))
				default:
					next = path + "&page_size=3&cursor=" + *list.Pagination.NextCursor
				}
			}
			if newestFirst {
				slices.Reverse(got)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s by %s (-want +got):\n%s", path, mode, diff)
			}
		}
	}
	cursor := *q.Send("GET", letters+"?topic=orders&page_size=3", "").Messages().Pagination.NextCursor
	for _, path := range []string{letters + "?topic=other&cursor=", letters + "?topic=orders&order=asc&cursor=", topicPath("orders") + "?cursor=", "/api/v1/dlq/archive?topic=orders&cursor="} {
		q.Send("GET", path+cursor, "").Wants(400, "REQ_INVALID_PARAMETER")
	}
	if p := q.Send("GET", letters+"?topic=orders&cursor="+cursor+"&include=total",
		"").Messages().Pagination; p.TotalCount == nil || *p.TotalCount != 7 || p.Page != nil {
		t.Errorf("include=total: %+v", p)
	}
}

func TestATopicMayHaveAnyName(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	names := []string{
		"a/b", "/a", "a//b", "a%b", "a%2Fb", "a%zz", "a b", "a+b", "a?b", "a#b", "a;b", "a,b", "a=b", "a&b", "a:b", "[a]",
		"ö/ü", "注文", "*a", "...", "a\\b", "\"a\"", "{topic}", "messages2",
	}
	for _, name := range names {
		l := q.push(strings.Replace(q.toTarget(""), `"orders"`, quoted(name), 1))
		list := q.Send("GET", topicPath(name), "").Messages()
		if len(list.Messages) != 1 || list.Messages[0].ID != l.ID || list.Messages[0].OriginalTopic != name {
			t.Errorf("%q lists %+v", name, list.Messages)
		}
		generated, err := q.ListDeadLettersOfTopicWithResponse(t.Context(), name, nil)
		if err != nil || generated.JSON200 == nil || len(generated.JSON200.Messages) != 1 {
			t.Errorf("%q by the client: %v %s", name, err, generated.Body)
		}
	}
	for _, name := range []string{"messages", "topics", "groups", "redrives", "archive", "export", "import"} {
		l := q.push(`{"original_topic":"` + name + `","error_message":"boom"}`)
		list := q.Send("GET", letters+"?topic="+name, "").Messages()
		if len(list.Messages) != 1 || list.Messages[0].ID != l.ID {
			t.Errorf("?topic=%s lists %+v", name, list.Messages)
		}
	}
	if list := q.Send("GET", "/api/v1/dlq/messages", "").Messages(); len(list.Messages) != 20 {
		t.Errorf("the literal path lists %d", len(list.Messages))
	}
	q.Send("GET", "/api/v1/dlq/a%00b", "").Wants(400, "REQ_INVALID_PARAMETER")
	q.Send("GET", "/api/v1/dlq/"+strings.Repeat("x", 256), "").Wants(400, "REQ_INVALID_PARAMETER")
	q.Send("GET", "/api/v1/dlq/a/b", "").Wants(404, "REQ_NOT_FOUND")
}

func TestAnUnknownLetterIsNotFound(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	none := client.DeadLetter{ID: uuid.Must(uuid.NewV7())}
	for _, op := range [][]string{
		{"GET", at(none), ""}, {"GET", at(none) + "/attempts", ""}, {"GET", at(none) + "/lineage", ""}, {"GET", at(none) + "/revisions", ""},
		{"PATCH", at(none), `{"note":"x"}`}, {"DELETE", at(none) + "?reason=r", ""}, {"POST", at(none) + "/retry", ""}, {"POST", at(none) + "/requeue", ""},
		{"POST", at(none) + "/discard", `{"reason":"r"}`}, {"POST", at(none) + "/resolve", ""}, {"POST", at(none) + "/ack", `{"generation":0,"outcome":"FAILED"}`},
		{"GET", "/api/v1/dlq/archive/" + none.ID.String(), ""}, {"POST", "/api/v1/dlq/archive/" + none.ID.String() + "/restore", ""},
	} {
		q.Send(op[0], op[1], op[2]).Wants(404, "DLQ_NOT_FOUND")
	}
	q.Send("GET", letters+"/not-a-uuid", "").Wants(400, "REQ_INVALID_PARAMETER")
}
