package dlqapi_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/skald-saga/skald/api/client"
)

func TestAPushedLetterIsStoredByteForByte(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	binary, header := "\x00\xff{}", "\xfe\x00"
	b64 := func(s string) *string { return new(base64.StdEncoding.EncodeToString([]byte(s))) }
	transient := client.DeadLetterErrorClassTRANSIENT
	in := client.DeadLetterInput{
		OriginalTopic: "orders", ErrorMessage: "boom", ErrorType: new("java.lang.Boom"), ErrorClass: &transient,
		ErrorStack:    new("at a.b(C.java:1)"),
		PayloadBase64: b64(binary), KeyBase64: b64("k\x00"),
		Headers: []client.DeadLetterHeader{{Name: "a", ValueBase64: b64(header)}, {Name: "a", Value: new("ö")},
			{Name: "none"}},
		OriginalPartition: new(int32(3)), OriginalOffset: new(int64(1 << 40)), ConsumerGroup: new("billing"),
		MaxRetries:    new(int32(7)),
		CorrelationID: new("c-1"), TraceID: new("t-1"), Labels: []string{"b", "a"}, DedupeKey: new("d-1"),
	}
	created, err := q.PushDeadLetterWithResponse(t.Context(), nil, in)
	if err != nil || created.JSON201 == nil {
		t.Fatalf("%v %s", err, created.Body)
	}
	got, err := q.GetDeadLetterWithResponse(t.Context(), created.JSON201.ID, nil)
	if err != nil || got.JSON200 == nil {
		t.Fatalf("%v %s", err, got.Body)
	}
	l := *got.JSON200
	if diff := cmp.Diff(*created.JSON201, l, cmpopts.IgnoreFields(l, "Warnings")); diff != "" {
		t.Errorf("(-created +read):\n%s", diff)
	}
	want := l // and what was sent:
	want.PayloadBase64, want.Payload = in.PayloadBase64, nil
	want.PayloadEncoding, want.PayloadBytes = new(client.DeadLetterEncodingBinary), new(len(binary))
	want.KeyBase64, want.Key = in.KeyBase64, new("k\x00")
	want.Headers = []client.DeadLetterHeader{
		{Name: "a", ValueBase64: b64(header)}, {Name: "a", Value: new("ö"), ValueBase64: b64("ö")}, {Name: "none"},
	}
	want.Status, want.MaxRetries, want.RetryCount = client.DeadLetterStatusPENDING, 7, 0
	want.Source, want.OriginalOffset, want.ErrorStack = client.DeadLetterSourceREST, in.OriginalOffset, in.ErrorStack
	want.Labels, want.RootID, want.Target.Kind = []string{"a", "b"}, l.ID, client.DeadLetterTargetKindKafka
	if diff := cmp.Diff(want, l); diff != "" || len(l.Fingerprint) != 32 {
		t.Errorf("fingerprint %q (-want +got):\n%s", l.Fingerprint, diff)
	}
	for payload, encoding := range map[string]client.DeadLetterEncoding{
		`{"a":[12345678901234567890123],"b":1.00,"ü":"<&>"}`: client.DeadLetterEncodingJSON, `null`: client.DeadLetterEncodingJSON, `"x"`: client.DeadLetterEncodingJSON,
	} {
		l := q.push(`{"original_topic":"orders","error_message":"boom","payload":` + payload + `}`)
		if string(l.Payload) != payload || *l.PayloadEncoding != encoding {
			t.Errorf("%s came back as %s, %v", payload, l.Payload, *l.PayloadEncoding)
		}
	}
	text := q.push(`{"original_topic":"orders","error_message":"boom","payload_base64":"` + *b64("no JSON {") + `"}`)
	if string(text.Payload) != `"no JSON {"` || *text.PayloadEncoding != client.DeadLetterEncodingText ||
		text.PayloadBase64 != nil {
		t.Errorf("text: %+v", text)
	}
	raw := q.Send("GET", at(text)+"?include=raw", "").Letter(200)
	if raw.PayloadBase64 == nil || *raw.PayloadBase64 != *b64("no JSON {") {
		t.Errorf("raw: %+v", raw)
	}
	if none := q.push(`{"original_topic":"orders","error_message":"boom"}`); none.Payload != nil || none.PayloadEncoding != nil || none.PayloadBytes != nil ||
		none.KeyBase64 != nil {
		t.Errorf("without a payload: %+v", none)
	}
	has := q.Send("GET", at(text), "", "If-None-Match", `"1"`)
	if has.Status != http.StatusNotModified {
		t.Errorf("If-None-Match: %d", has.Status)
	}
}

func TestALetterIsPushedOnce(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	body := `{"original_topic":"orders","error_message":"boom","payload":{"n":1}%s}`
	for _, tt := range []struct{ name, body, header, value string }{
		{"by its dedupe key", fmt.Sprintf(body, `,"dedupe_key":"d"`), "X-Request-Id", "r"},
		{"by an Idempotency-Key", fmt.Sprintf(body, ""), "Idempotency-Key", "i"},
		{"by a long Idempotency-Key", fmt.Sprintf(body, ""), "Idempotency-Key", strings.Repeat("i", 255)},
	} {
		first := q.push(tt.body, tt.header, tt.value)
		r := q.Send("POST", letters, tt.body, tt.header, tt.value)
		again := r.Letter(http.StatusOK)
		if again.ID != first.ID || again.Deduplicated == nil || !*again.Deduplicated || first.Deduplicated != nil {
			t.Errorf("%s: %s and %s", tt.name, first.ID, r.Body)
		}
		if keyed := tt.header == "Idempotency-Key"; (r.Header.Get("Idempotent-Replayed") == "true") != keyed {
			t.Errorf("%s: Idempotent-Replayed %q", tt.name, r.Header.Get("Idempotent-Replayed"))
		}
	}
	q.Send("POST", letters, fmt.Sprintf(body, `,"trace_id":"other"`), "Idempotency-Key", "i").Wants(422,
		"REQ_IDEMPOTENCY_KEY_REUSED")
	q.Send("POST", letters, fmt.Sprintf(body, `,"dedupe_key":"d"`), "Idempotency-Key", "i").Wants(400,
		"REQ_INVALID_PARAMETER")
	other := `{"original_topic":"other","error_message":"other","dedupe_key":"d"}`
	if l := q.Send("POST", letters, other).Letter(200); l.OriginalTopic != "orders" {
		t.Errorf("a known dedupe key gave %+v", l)
	}
	if n := *q.Send("GET", letters, "").Messages().Pagination.TotalCount; n != 3 {
		t.Errorf("%d letters, want 3", n)
	}
}

func TestInvalidDeadLettersAreRefused(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	with := func(more string) string { return `{"original_topic":"orders","error_message":"boom",` + more + `}` }
	for name, tt := range map[string]struct{ body, code, pointer string }{
		"no topic":             {`{"error_message":"boom"}`, "REQ_SCHEMA", "/original_topic"},
		"an empty topic":       {`{"original_topic":"","error_message":"boom"}`, "DLQ_INVALID", "/original_topic"},
		"an empty error":       {`{"original_topic":"a","error_message":""}`, "DLQ_INVALID", "/error_message"},
		"a long topic":         {`{"original_topic":"` + strings.Repeat("ö", 256) + `","error_message":"boom"}`, "DLQ_INVALID", "/original_topic"},
		"an unknown member":    {with(`"colour":1`), "REQ_SCHEMA", "/colour"},
		"two payloads":         {with(`"payload":1,"payload_base64":"AA=="`), "DLQ_INVALID", "/payload_base64"},
		"no base64":            {with(`"payload_base64":"!"`), "DLQ_INVALID", "/payload_base64"},
		"two keys":             {with(`"key":"a","key_base64":"AA=="`), "DLQ_INVALID", "/key_base64"},
		"two values":           {with(`"headers":[{"name":"a"},{"name":"a","value":"a","value_base64":"AA=="}]`), "DLQ_INVALID", "/headers/1/value_base64"},
		"a negative partition": {with(`"original_partition":-1`), "REQ_SCHEMA", "/original_partition"},
		"a saga as target":     {with(`"target":{"kind":"saga_step"}`), "DLQ_INVALID", "/target/kind"},
		"no URL":               {with(`"target":{"kind":"http"}`), "DLQ_INVALID", "/target/url"},
		"a URL for Kafka":      {with(`"target":{"kind":"kafka","url":"http://h/"}`), "DLQ_INVALID", "/target/url"},
		"a forbidden URL":      {with(`"target":{"kind":"http","url":"http://169.254.1.1/"}`), "DLQ_TARGET_NOT_ALLOWED", "/target/url"},
		"a dead-letter topic":  {with(`"target":{"kind":"kafka","topic":"orders.dlq"}`), "DLQ_TARGET_NOT_ALLOWED", "/target/topic"},
		"no scheme":            {with(`"target":{"kind":"http","url":"orders"}`), "DLQ_INVALID", "/target/url"},
		"another scheme":       {with(`"target":{"kind":"http","url":"ftp://127.0.0.1/"}`), "DLQ_INVALID", "/target/url"},
		"no topic of Kafka":    {`{"original_topic":"my orders","error_message":"boom"}`, "DLQ_INVALID", "/original_topic"},
		"one that is read":     {`{"original_topic":"ord.dlq","error_message":"boom"}`, "DLQ_TARGET_NOT_ALLOWED", "/original_topic"},
		"no topic to drive to": {with(`"target":{"kind":"kafka","topic":"my orders"}`), "DLQ_INVALID", "/target/topic"},
		"too much for HTTP":    {with(`"key":"` + strings.Repeat("x", 40_000) + `","target":{"kind":"http","url":"http://127.0.0.1/"}`), "DLQ_INVALID", "/headers"},
		"a reserved key":       {with(`"dedupe_key":"idem:a"`), "DLQ_INVALID", "/dedupe_key"},
		"too many retries":     {with(`"max_retries":1001`), "REQ_SCHEMA", "/max_retries"},
		"an empty label":       {with(`"labels":[""]`), "DLQ_INVALID", "/labels/0"},
		"a time before time":   {with(`"original_timestamp":"0001-01-01T00:00:00Z"`), "DLQ_INVALID", "/original_timestamp"},
	} {
		p := q.Send("POST", letters, tt.body).Wants(422, tt.code)
		if len(p.Errors) == 0 || p.Errors[0].Pointer != tt.pointer {
			t.Errorf("%s: errors %+v, want %s", name, p.Errors, tt.pointer)
		}
	}
	if dead := q.push(with(`"max_retries":0`)); dead.Status != client.DeadLetterStatusDEAD ||
		*dead.Resolution != client.DeadLetterResolutionEXHAUSTED {
		t.Errorf("a letter that may not be retried: %+v", dead)
	}
	if r := q.Send("POST", letters, with(`"payload_base64":"`+base64.StdEncoding.EncodeToString(make([]byte, 10<<20))+
		`"`)); r.Status != 201 {
		t.Errorf("10 MiB: %d", r.Status)
	}
	q.Send("POST", letters, with(`"payload_base64":"`+base64.StdEncoding.EncodeToString(make([]byte, 10<<20+1))+
		`"`)).Wants(422, "DLQ_INVALID")
	q.Send("POST", letters, with(`"payload_base64":"`+strings.Repeat("A", 16<<20)+`"`)).Wants(413, "REQ_TOO_LARGE")
}

func TestABatchReportsTheResultOfEachLetter(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.push(`{"original_topic":"orders","error_message":"boom","dedupe_key":"known"}`)
	one := func(topic, more string) string {
		return `{"original_topic":"` + topic + `","error_message":"boom"` + more + `}`
	}
	r := q.Send("POST", letters+"/batch", `{"messages":[`+strings.Join([]string{
		one("a", ""), one("", ""), `{"original_topic":"no-message"}`, `5`, one("x", `,"max_retries":"3"`), one("x", `,"original_timestamp":"2026-02-30T00:00:00Z"`), one("b", `,"dedupe_key":"known"`),
		one("c", `,"target":{"kind":"http","url":"http://169.254.1.1/"}`), one("d", `,"dedupe_key":"twice"`), one("e", `,"dedupe_key":"twice"`),
	}, ",")+`]}`)
	var out client.DeadLetterResults
	r.Into(&out)
	var got []string
	for _, x := range out.Results {
		s := fmt.Sprint(x.Status)
		if x.Problem != nil {
			s += " " + x.Problem.Code
		}
		if x.Deduplicated != nil {
			s += " known"
		}
		if (x.ID != nil) != (x.Status < 300) {
			t.Errorf("%+v", x)
		}
		got = append(got, s)
	}
	want := []string{"201", "422 DLQ_INVALID", "422 REQ_SCHEMA", "422 REQ_SCHEMA", "422 REQ_SCHEMA", "422 REQ_SCHEMA",
		"200 known", "422 DLQ_TARGET_NOT_ALLOWED", "201", "200 known"}
	if diff := cmp.Diff(want, got); diff != "" || r.Status != 200 {
		t.Errorf("%d (-want +got):\n%s", r.Status, diff)
	}
	if n := *q.Send("GET", letters, "").Messages().Pagination.TotalCount; n != 3 {
		t.Errorf("%d letters, want 3", n)
	}
	many := strings.TrimSuffix(strings.Repeat(one("many", "")+",", 501), ",")
	q.Send("POST", letters+"/batch", `{"messages":[`+many+`]}`).Wants(422, "REQ_SCHEMA")
	q.Send("POST", letters+"/batch", `{"messages":[]}`).Wants(422, "REQ_SCHEMA")
	if r := q.Send("POST", letters+"/batch", `{"messages":[`+many[:500*(len(one("many", ""))+1)-1]+
		`]}`); r.Status != 200 || strings.Count(string(r.Body), `"status":201`) != 500 {
		t.Errorf("500 letters: %d %.200s", r.Status, r.Body)
	}
}
