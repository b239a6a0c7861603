package strictjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/skald-saga/skald/internal/strictjson"
)

// An order as a client sends it, keys in the order of its program; about 200 bytes.
const order = `{"order_id": "0195f3c2-7c1e-7d4f-9a51-3f1f6f0f2c11", "customer": {"name": "Sigrún Jónsdóttir", "tier": 2}, ` +
	`"amount": 129.50, "currency": "EUR", "lines": [{"sku": "A-1", "quantity": 2}]}`

// orders is an object of about 28 kB.
func orders() []byte {
	var b bytes.Buffer
	b.WriteString(`{"note": "日本語 und English", "orders": [`)
	for i := 0; b.Len() < 28_000; i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(order)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func canonical(tb testing.TB, src []byte) []byte {
	tb.Helper()
	out, err := strictjson.Canonical(nil, src, strictjson.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestAUsualBodyNeedsNoAllocationWhenDstHasRoom(t *testing.T) {
	src, dst := []byte(order), make([]byte, 0, 4096)
	got := testing.AllocsPerRun(100, func() {
		if _, err := strictjson.Canonical(dst, src, strictjson.Limits{}); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

func BenchmarkCanonical(b *testing.B) {
	for _, src := range [][]byte{[]byte(order), orders()} {
		for _, in := range []struct {
			name string
			src  []byte
		}{
			{"unsorted", src},
			{"canonical", canonical(b, src)},
		} {
			name := fmt.Sprintf("%dB/%s", len(in.src), in.name)
			dst := make([]byte, 0, 2*len(src))
			b.Run(name+"/reused", func(b *testing.B) {
				b.SetBytes(int64(len(in.src)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := strictjson.Canonical(dst, in.src, strictjson.Limits{}); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(name+"/fresh", func(b *testing.B) {
				b.SetBytes(int64(len(in.src)))
				b.ReportAllocs()
				for b.Loop() {
					canonical(b, in.src)
				}
			})
			b.Run(name+"/encoding_json", func(b *testing.B) {
				b.SetBytes(int64(len(in.src)))
				b.ReportAllocs()
				for b.Loop() {
					var v any
					if err := json.Unmarshal(in.src, &v); err != nil {
						b.Fatal(err)
					}
					if _, err := json.Marshal(v); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
