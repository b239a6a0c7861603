package httpapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheContractListsEveryCode compares the codes in the contract with those of the packages, from
// which docs/problems.md is generated too.
func TestTheContractListsEveryCode(t *testing.T) {
	read, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	schema := read.doc.Components.Schemas["ProblemCode"].Value
	var listed, want []string
	for _, v := range schema.Enum {
		listed = append(listed, v.(string))
	}
	for _, k := range problems {
		want = append(want, k.Code)
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("ProblemCode (-code +contract):\n%s", diff)
	}
	if schema.Extensions["x-extensible"] != true {
		t.Error("ProblemCode does not say that the list may grow")
	}
}
