package dlqapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/dlq"
)

// oddText is text as a client sends it in JSON, and the beginning of long texts of it as they are
// stored.
const (
	oddText    = `a\u0000b\ud800c` + "\xff\xfe" + `d`
	oddMended  = "a\uFFFDb\uFFFDc\uFFFDd"
	oddAsBytes = "a\x00b\xed\xa0\x80c\xff\xfed" // the same as a header of Kafka
)

// TestTheTextsOfALetterAreCleanedAsFromKafka checks that the same texts are stored whether they are
// pushed alone, in a batch, by an import or by a record with headers, and that the client that
// pushed them is notified.
func TestTheTextsOfALetterAreCleanedAsFromKafka(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	long := strings.Repeat("é", 60_000)
	arrival := dlq.Intake{}.Arrival(dlq.Record{
		Place: dlq.Position{Topic: "orders.DLT"},
		Content: dlq.Content{Headers: []dlq.Header{
			{Name: "kafka_dlt-exception-message", Value: []byte(oddAsBytes + strings.Repeat("é", 5_000))},
			{Name: "kafka_dlt-exception-fqcn", Value: []byte(oddAsBytes + strings.Repeat("é", 500))},
			{Name: "kafka_dlt-exception-stacktrace", Value: []byte(oddAsBytes + long)},
		}},
	})
	want := arrival.Failure
	if !strings.HasPrefix(want.Message, oddMended) || len(want.Message) < dlq.MaxError-1 {
		t.Fatalf("from Kafka: %.30q", want.Message)
	}
	members := fmt.Sprintf(`"original_topic":"orders","payload":{"kept":"as it is"},
		"error_message":"%s%s","error_type":"%s%s","error_stack":"%s%s"`, oddText, strings.Repeat("é", 5_000), oddText, strings.Repeat("é", 500), oddText, long)
	all := []string{"/error_message", "/error_stack", "/error_type"}
	look := func(way string, id uuid.UUID) {
		t.Helper()
		var l client.DeadLetter
		q.Send("GET", letters+"/"+id.String(), "").Into(&l)
		if l.ErrorMessage != want.Message || *l.ErrorType != want.Type || *l.ErrorStack != want.Stack {
			t.Errorf("%s: %.30q (%d), %.30q (%d), %.30q (%d)", way, l.ErrorMessage, len(l.ErrorMessage), *l.ErrorType,
				len(*l.ErrorType), *l.ErrorStack, len(*l.ErrorStack))
		}
	}
	r := q.Send("POST", letters, `{`+members+`}`)
	var pushed client.DeadLetter
	if r.Into(&pushed); r.Status != 201 || !slices.Equal(pushed.Adjusted, all) {
		t.Fatalf("pushed: %d %.500s", r.Status, r.Body)
	}
	look("pushed", pushed.ID)
	r = q.Send("POST", letters, `{`+members+`}`, "Idempotency-Key", "k-1")
	r.Into(&pushed)
	if again := q.Send("POST", letters, `{`+members+`}`, "Idempotency-Key", "k-1"); again.Status != 200 {
		t.Errorf("pushed again with its key: %d %.300s", again.Status, again.Body)
	}
	r = q.Send("POST", letters+"/batch", `{"messages":[{`+members+`},{"original_topic":"a","error_message":"b"}]}`)
	var batch client.DeadLetterResults
	if r.Into(&batch); r.Status != 200 || !slices.Equal(batch.Results[0].Adjusted, all) ||
		batch.Results[1].Adjusted != nil {
		t.Fatalf("batch: %d %.500s", r.Status, r.Body)
	}
	look("batch", *batch.Results[0].ID)
	id := uuid.New()
	line := strings.ReplaceAll(`{"id":"`+id.String()+`",`+members+`}`, "\n", "")
	r = q.Send("POST", imprt, line, "Content-Type", "application/x-ndjson")
	var imported client.DeadLetterImportResult
	if r.Into(&imported); r.Status != 200 || imported.Imported != 1 || len(imported.Adjusted) != 1 ||
		imported.Adjusted[0].Line != 1 || !slices.Equal(imported.Adjusted[0].Members, all) {
		t.Fatalf("import: %d %.500s", r.Status, r.Body)
	}
	look("import", id)
	plain := q.Send("POST", letters,
		`{"original_topic":"orders","error_message":"`+strings.Repeat("x", dlq.MaxError)+`"}`)
	if plain.Status != 201 || strings.Contains(string(plain.Body), `"adjusted"`) {
		t.Errorf("a text of exactly the limit: %d %.300s", plain.Status, plain.Body)
	}
}

// TestOneOddLetterOfABatchIsRefusedAlone checks that the others are stored.
func TestOneOddLetterOfABatchIsRefusedAlone(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	const head = `{"original_topic":"orders","error_message":"m"`
	odd := []string{
		head + `,"payload":{"a":"\u0000"}}`, head + `,"payload":"\ud800"}`, head + `,"payload":{"a":1,"a":2}}`,
		head + `,"payload":1e400}`,
		head + ",\"payload\":\"\xff\"}", head + `,"payload":NaN}`, head + `,"payload":[1}`, head + `,"payload":{"a" "b"}}`,
		head + `,"payload":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, head + `,"error_message":"n"}`,
		head + `,"key":"\u0000"}`, head + `,"correlation_id":"\u0000"}`, head + `,"max_retries":-1}`,
		head + `,"max_retries":1.0}`, head + `,"max_retries":1e400}`, head + `,"original_offset":1e300}`,
		head + `,"original_timestamp":"2025-02-29T00:00:00Z"}`,
		head + `,"labels":[""]}`, head + `,"saga_id":"x"}`, head + `,"payload_base64":"!"}`, head + `,"surplus":1}`,
		head + `,"consumer_group":"` + strings.Repeat("x", 300) + `"}`, head + `,"error_class":"ODD"}`,
		`{"original_topic":"orders"}`, `{"error_message":"m"}`, `{"original_topic":"orders","error_message":""}`,
		`{"original_topic":"orders","error_message":7}`, `{}`, `[]`, `null`, `7`, `"x"`, ``, `undefined`, `{'a':1}`,
	}
	good := head + `,"dedupe_key":"%d"}`
	judge := func(items []string, r []client.DeadLetterResult) {
		t.Helper()
		for i, text := range items {
			bad, stored := r[2*i], r[2*i+1]
			if bad.Status != 422 && bad.Status != 400 || bad.Problem == nil || stored.Status != 201 && stored.Status != 200 {
				t.Errorf("%.100q: %+v, %+v", text, bad, stored)
			}
		}
	}
	send := func(items []string) []client.DeadLetterResult {
		t.Helper()
		var list []string
		for i, text := range items {
			list = append(list, text, fmt.Sprintf(good, i))
		}
		r := q.Send("POST", letters+"/batch", `{"messages":[`+strings.Join(list, ",")+`]}`)
		var out client.DeadLetterResults
		if r.Into(&out); r.Status != 200 || len(out.Results) != len(list) {
			t.Fatalf("%.200q: %d %.300s", items, r.Status, r.Body)
		}
		return out.Results
	}
	judge(odd, send(odd))
	for i := range odd {
		judge(odd[i:i+1], send(odd[i:i+1]))
	}
	var lines []string
	for i, text := range odd {
		lines = append(lines, strings.Replace(text, "{", `{"id":"`+uuid.NewString()+`",`, 1),
			strings.Replace(fmt.Sprintf(good, 1000+i), "{", `{"id":"`+uuid.NewString()+`",`, 1))
	}
	r := q.Send("POST", imprt, strings.Join(lines, "\n"), "Content-Type", "application/x-ndjson")
	var p struct {
		Import client.DeadLetterImportResult `json:"import"`
	}
	if err := json.Unmarshal(r.Body, &p); err != nil || r.Status != 422 ||
		p.Import.Imported != len(odd)+1 { // in an import, -1 retries means the policy's number
		t.Errorf("import: %d %.500s", r.Status, r.Body)
	}
}
