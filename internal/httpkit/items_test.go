package httpkit_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/strictjson"
)

func listOf(t testing.TB, schema string) (*httpkit.List, *httpkit.Body) {
	t.Helper()
	doc, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	body := doc.Components.Schemas[schema].Value
	return httpkit.ListOf(body, doc.Components.Schemas["AnyJSON"]), httpkit.BodyOf(body)
}

func TestTheContractSaysWhichItemsAreJudgedAlone(t *testing.T) {
	doc, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	for name, schema := range doc.Components.Schemas {
		l := httpkit.ListOf(schema.Value, doc.Components.Schemas["AnyJSON"])
		want := slices.Contains([]string{"HeartbeatInput", "StartBatch", "CompleteBatch", "ExchangeInput",
			"DeadLetterBatch"}, name)
		if (l != nil) != want {
			t.Errorf("%s: %v", name, l)
		}
		if l == nil {
			continue
		}
		for _, member := range append(slices.Clone(l.Spare), l.ID) {
			if member != "" && l.Item.Schema.Properties[member] == nil {
				t.Errorf("%s: its items have no %s", name, member)
			}
		}
		for _, member := range l.Around {
			if l.Body.Schema.Properties[member] == nil {
				t.Errorf("%s has no %s", name, member)
			}
		}
	}
}

// TestNumbersOfAllItemsGrowNoMoreThanThoseOfOneDocument checks that large exponents cannot exhaust
// the memory.
func TestNumbersOfAllItemsGrowNoMoreThanThoseOfOneDocument(t *testing.T) {
	l, _ := listOf(t, "DeadLetterBatch")
	item := `{"original_topic":"a","error_message":"b","payload":[` + strings.Repeat("1e399,", 100) + `1]}`
	body := `{"messages":[` + strings.Repeat(item+",", 5) + `7]}`
	judged, items, _, ok := l.Judge([]byte(body), 64)
	if !ok || items[0].Refused != nil || items[4].Refused == nil || len(judged) > 100<<10 {
		t.Errorf("%v: %d bytes, %+v", ok, len(judged), items)
	}
}

// BenchmarkBatchOfResults decodes a batch of 500 results, from its bytes to the handler. In "as
// one" the items are decoded together, as they were before each was checked separately.
func BenchmarkBatchOfResults(b *testing.B) {
	var items []string
	for i := range 500 {
		items = append(items, fmt.Sprintf(
			`{"run_id":%q,"attempt":1,"lease_token":%q,"leader_epoch":7,"result":{"rows":%d},"exit_code":0}`,
			uuid.New(), uuid.New(), i))
	}
	body := []byte(`{"runs":[` + strings.Join(items, ",") + `]}`)
	odd := []byte(`{"runs":[` + strings.Join(items, ",") + `,{"a":"\u0000"}]}`)
	l, schema := listOf(b, "CompleteBatch")
	read := func(b *testing.B, into any) {
		text, _, why := httpkit.Read(schema, body, strictjson.Limits{})
		if why != nil || json.Unmarshal(text, into) != nil {
			b.Fatal(why)
		}
	}
	b.Run("as one", func(b *testing.B) {
		for b.Loop() {
			var into struct {
				Runs []api.CompleteItem `json:"runs"`
			}
			read(b, &into)
		}
	})
	b.Run("each", func(b *testing.B) {
		for b.Loop() {
			var into api.CompleteBatch
			read(b, &into)
		}
	})
	b.Run("with an odd item", func(b *testing.B) {
		for b.Loop() {
			if _, _, why := httpkit.Read(schema, odd, strictjson.Limits{}); why == nil {
				b.Fatal("it is in order")
			}
			text, _, _, ok := l.Judge(odd, 64)
			var into api.CompleteBatch
			if !ok || json.Unmarshal(text, &into) != nil {
				b.Fatal("it was not judged")
			}
		}
	})
}
