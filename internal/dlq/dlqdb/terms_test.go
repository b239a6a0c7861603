package dlqdb

import (
	"bytes"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
)

func TestMembersOfPayloads(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		doc  string
		want []string
	}{
		"scalars":               {`{"a":1,"b":"x","c":true,"d":null}`, []string{"a=1", `b="x"`, "c=true", "d=null"}},
		"below each other":      {`{"a":{"b":{"c":1}},"d":[{"e":2},3]}`, []string{"a.b.c=1", "d.0.e=2", "d.1=3"}},
		"numbers, however":      {`[1,1.0,1e0,-0,0.10]`, []string{"0=1", "1=1", "2=1", "3=0", "4=0.1"}},
		"a scalar":              {`5`, nil},
		"a dot in a name":       {`{"a.b":1,"c.d":{"e":2},"f":3}`, []string{"f=3"}},
		"an empty name":         {`{"":1,"x":{"":2},"y":3}`, []string{"y=3"}},
		"too deep":              {`{"a":{"b":{"c":{"d":{"e":{"f":1,"g":{"h":2}}}}}},"i":3}`, []string{"a.b.c.d.e.f=1", "i=3"}},
		"a long text":           {`{"a":"` + strings.Repeat("x", 256) + `","b":1}`, []string{"b=1"}},
		"an object, ended":      {`{"a":{},"b":[],"c":1}`, []string{"c=1"}},
		"what is not JSON":      {`{"a":1,`, []string{"a=1"}},
		"more than are indexed": {"[" + strings.Repeat("1,", 99) + "1]", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := members([]byte(tt.doc))
			for i := range got {
				got[i] = strings.Replace(got[i], "\x00", "=", 1)
			}
			if name == "more than are indexed" {
				if len(got) != maxPayloadTerms {
					t.Errorf("%d members, want %d", len(got), maxPayloadTerms)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFiltersAndLettersHaveTheSameTerms(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][2]string{
		"5":       {"5", "5"},
		"5.0":     {"5", "5.0"},
		"true":    {"true", "true"},
		"null":    {"null", "null"},
		`"5"`:     {`"5"`, `"5"`},
		"abc":     {`"abc"`, `"abc"`},
		"5 ":      {`"5 "`, `"5 "`},
		"5 6":     {`"5 6"`, `"5 6"`},
		"{}":      {`"{}"`, `"{}"`},
		"[1]":     {`"[1]"`, `"[1]"`},
		"":        {`""`, `""`},
		`a"b`:     {`"a"b"`, `"a\"b"`},
		`"a\"b"`:  {`"a"b"`, `"a\"b"`},
		"1e999":   {`"1e999"`, `"1e999"`},
		"+49-123": {`"+49-123"`, `"+49-123"`},
	} {
		if term, doc := asked(value); term != want[0] || string(doc) != want[1] {
			t.Errorf("%q asks for %q, %s; want %q, %s", value, term, doc, want[0], want[1])
		}
	}
}

func TestWordsOfMessages(t *testing.T) {
	t.Parallel()
	for message, want := range map[string][]string{
		"Connection refused: dial tcp 10.0.0.1:80": {"connection", "refused", "dial", "tcp", "10", "0", "1", "80"},
		"ÄRGER über_alles":                         {"ärger", "über", "alles"},
		"接続できません。":                                 {"接続できません"},
		"--- !!":                                   nil,
	} {
		if diff := cmp.Diff(want, words(message)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", message, diff)
		}
	}
	if n := len(words(strings.Repeat("a b ", 50) + strings.Join(strings.Split(strings.Repeat("xyz", 99), ""),
		"1 "))); n > maxWordTerms {
		t.Errorf("%d words", n)
	}
}

func TestTermsOfALetter(t *testing.T) {
	t.Parallel()
	l := dlq.Letter{
		TenantID: uuid.MustParse("11111111-1111-4111-8111-111111111111"), Source: dlq.FromKafka, ConsumerGroup: "g", Fingerprint: "ff",
		CorrelationID: "c", TraceID: "t",
		Assignee: "ada", Labels: []string{"x", "y"}, Link: dlq.Link{SagaID: uuid.Max, JobRunID: uuid.Max}, Encoding: dlq.JSON,
		Failure: dlq.Failure{Message: "no no", Type: "E", Class: dlq.Permanent},
		Content: dlq.Content{Key: []byte{0}, Payload: []byte(`{"n":1}`), Headers: []dlq.Header{
			{Name: "h", Value: []byte("v")}, {Name: "none"}, {Name: "long", Value: bytes.Repeat([]byte("l"), 256)},
			{Name: "offset", Value: []byte{0, 0, 0, 9}}, {Name: "not UTF-8", Value: []byte{0xff}},
		}},
	}
	of := func(l dlq.Letter, k TermKind, value string) int32 { return Term(l.TenantID, k, value) }
	readable := []int32{
		of(l, termSource, "KAFKA"), of(l, termConsumers, "g"), of(l, termFingerprint, "ff"), of(l, TermCorrelation, "c"),
		of(l, TermTrace, "t"), of(l, termAssignee, "ada"),
		of(l, termLabel, "x"), of(l, termLabel, "y"), of(l, TermSaga, uuid.Max.String()),
		of(l, TermJobRun, uuid.Max.String()),
		of(l, termErrorType, "E"), of(l, termErrorClass, "PERMANENT"), of(l, termWord, "no"),
	}
	content := []int32{of(l, termKey, "\x00"), of(l, termHeader, "h\x00v"), of(l, termPayload, "n\x001")}
	anyOrder := cmpopts.SortSlices(func(a, b int32) bool { return a < b })
	if diff := cmp.Diff(slices.Concat(readable, content), letterTerms(nil, &l, false), anyOrder); diff != "" {
		t.Errorf("terms (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(readable, letterTerms(nil, &l, true), anyOrder); diff != "" {
		t.Errorf("terms of a sealed one (-want +got):\n%s", diff)
	}
	other := l
	other.TenantID = uuid.Max
	for _, term := range letterTerms(nil, &other, false) {
		if slices.Contains(letterTerms(nil, &l, false), term) {
			t.Error("two tenants share a term")
		}
	}
}

func TestHeadersKeepTheirOrderAndRepetitions(t *testing.T) {
	t.Parallel()
	for _, headers := range [][]dlq.Header{
		nil,
		{{Name: "a", Value: []byte("1")}, {Name: "b", Value: []byte{}}, {Name: "a"}, {Name: "", Value: []byte{0, 255}}},
		{{Name: strings.Repeat("n", 300), Value: []byte(strings.Repeat("v", 70_000))}},
	} {
		packed := packHeaders(headers)
		got, err := unpackHeaders(packed)
		if diff := cmp.Diff(headers, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		for n := range min(len(packed), 50) {
			if got, err := unpackHeaders(packed[:n]); err == nil && len(got) >= len(headers) {
				t.Errorf("cut after %d bytes, it reads as %v", n, got)
			}
		}
	}
}

// Terms are stored: with a different hash, stored letters could no longer be found.
func TestATermIsTheHashThatIsStored(t *testing.T) {
	t.Parallel()
	tenant := uuid.New()
	for _, value := range []string{"", "a", "name\x00value", strings.Repeat("ж", 300)} {
		h := fnv.New64a()
		h.Write(tenant[:])
		h.Write([]byte("h" + value))
		want := int32(uint32(h.Sum64() ^ h.Sum64()>>32))
		if got := Term(tenant, termHeader, value); got != want {
			t.Errorf("the term of %q is %d, want %d", value, got, want)
		}
	}
}
