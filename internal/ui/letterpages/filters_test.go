package letterpages

import "testing"

func TestAFilterIsToldInWords(t *testing.T) {
	for value, want := range map[string]string{
		`"orders"`: "orders", `["DEAD","PENDING"]`: "DEAD or PENDING", `1000000`: "1000000", `true`: "true",
	} {
		if got := filterWords([]byte(value)); got != want {
			t.Errorf("%s is told as %q, want %q", value, got, want)
		}
	}
}
