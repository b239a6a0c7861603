package saga

import "testing"

// BenchmarkApply measures the cost of the decision for each step. It uses a saga of three steps in
// three cases: the first step is done, the last step is done, and one is refused.
func BenchmarkApply(b *testing.B) {
	second := func(word string) func() Instance {
		return func() Instance {
			r := started("uuu")
			for range 2 {
				c, err := Apply(r, happenings[word], moments(noon))
				if err != nil {
					b.Fatal(err)
				}
				r = c.After
			}
			return r
		}
	}
	for _, bb := range []struct {
		name string
		at   func() Instance
		word string
	}{
		{"step done", func() Instance { return started("uuu") }, "done"},
		{"all done", second("done"), "done"},
		{"refused", second("done"), "refused"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			r, e, m := bb.at(), happenings[bb.word], moments(noon)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Apply(r, e, m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
