package httpkit

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestWhatIsPassedOnBesideTheTrace(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	many := func(n int, member string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(member, i)
		}
		return strings.Join(all, ",")
	}
	long := func(begin string, n int) string { return begin + strings.Repeat("x", n-len(begin)) }
	lines := func(of ...string) []string { return of }
	for _, tt := range []struct {
		name, header string
		sent         []string
		want         string // "": dropped
	}{
		{"one vendor", "Tracestate", lines("congo=t61rcWkgMzE"), "congo=t61rcWkgMzE"},
		{"blanks and empty members", "Tracestate", lines("a=1 ,\tb=2,,"), "a=1 ,\tb=2,,"},
		{"two lines", "Tracestate", lines("a=1", "b=2"), "a=1,b=2"},
		{"a vendor's tenant", "Tracestate", lines("1tenant@vendor=x y"), "1tenant@vendor=x y"},
		{"32 members", "Tracestate", lines(many(32, "k%d=v")), many(32, "k%d=v")},
		{"33 members", "Tracestate", lines(many(33, "k%d=v")), ""},
		{"33 members in two lines", "Tracestate", lines(many(32, "k%d=v"), "z=1"), ""},
		{"512 bytes", "Tracestate", lines(long("a=", 200) + "," + long("b=", 200) + "," + long("c=", 110)),
			long("a=", 200) + "," + long("b=", 200) + "," + long("c=", 110)},
		{"513 bytes", "Tracestate", lines(long("a=", 200) + "," + long("b=", 200) + "," + long("c=", 111)), ""},
		{"a value of 257", "Tracestate", lines(long("a=", 259)), ""},
		{"no value", "Tracestate", lines("a"), ""},
		{"a key in upper case", "Tracestate", lines("A=1"), ""},
		{"a key twice", "Tracestate", lines("a=1,a=2"), ""},
		{"a second =", "Tracestate", lines("a=1=2"), ""},
		{"not ASCII", "Tracestate", lines("a=é"), ""},
		{"nothing", "Tracestate", lines(""), ""},
		{"commas only", "Tracestate", lines(" , ,"), ""},

		{"two entries and a property", "Baggage", lines("userId=Am%C3%A9lie,isProduction=false;ttl=3;secret"),
			"userId=Am%C3%A9lie,isProduction=false;ttl=3;secret"},
		{"blanks", "Baggage", lines("k1 = v1 ; p = 1 , k2 =\tv2"), "k1 = v1 ; p = 1 , k2 =\tv2"},
		{"an empty value, and a value with =", "Baggage", lines("a=,b=c=d"), "a=,b=c=d"},
		{"two lines", "Baggage", lines("a=1", "b=2"), "a=1,b=2"},
		{"a key twice", "Baggage", lines("a=1,a=2"), "a=1,a=2"},
		{"64 members", "Baggage", lines(many(64, "k%d=v")), many(64, "k%d=v")},
		{"65 members", "Baggage", lines(many(65, "k%d=v")), ""},
		{"8192 bytes", "Baggage", lines(long("a=", 8192)), long("a=", 8192)},
		{"8193 bytes", "Baggage", lines(long("a=", 8193)), ""},
		{"no value", "Baggage", lines("a"), ""},
		{"no key", "Baggage", lines("=1"), ""},
		{"a blank in a value", "Baggage", lines("a=b c"), ""},
		{"a quote", "Baggage", lines(`a="b"`), ""},
		{"not ASCII", "Baggage", lines("a=\xff"), ""},
		{"nothing", "Baggage", lines(""), ""},
	} {
		t.Run(tt.header+": "+tt.name, func(t *testing.T) {
			h := http.Header{"Traceparent": {parent}, tt.header: tt.sent}
			CleanTrace(h)
			got, kept := h[tt.header]
			if kept != (tt.want != "") || kept && (len(got) != 1 || got[0] != tt.want) {
				t.Errorf("passed on %q, want %q", got, tt.want)
			}
			for _, parents := range [][]string{nil, {"00-zz"}, {parent, parent}, {""}} {
				h := http.Header{"Tracestate": {"a=1"}, "Baggage": {"a=1"}}
				if parents != nil {
					h["Traceparent"] = parents
				}
				if CleanTrace(h); h.Get("Tracestate") != "" || h.Get("Baggage") != "a=1" {
					t.Errorf("beside the traceparent %q: %v", parents, h)
				}
			}
		})
	}
}
