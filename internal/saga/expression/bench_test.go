package expression_test

import (
	"encoding/json"
	"testing"

	"github.com/skald-saga/skald/internal/saga/expression"
)

// BenchmarkTemplate measures a body of typical size, with paths only and with computations.
func BenchmarkTemplate(b *testing.B) {
	for name, template := range map[string]string{
		"paths":    `{"sku":"${payload.sku}","n":"${payload.n}","key":"${call.key}","text":"order ${payload.sku} of ${saga.id}"}`,
		"computed": `{"sku":"${payload.sku}","n":"${payload.n + 1}","key":"${call.key}","last":"${payload.flag ? 'x' : 'y'}"}`,
	} {
		b.Run(name, func(b *testing.B) {
			w := aWorld(b)
			t := expression.NewTemplate(json.RawMessage(canonical(b, template)), place(expression.Action),
				func(_ string, err error) { b.Fatal(err) })
			b.ReportAllocs()
			for b.Loop() {
				if _, err := t.Append(nil, expression.Evaluate(w)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
