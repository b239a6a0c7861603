package sagapages

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// TestPagesHaveEveryFilterOfSagas checks that every filter in the contract is a field of the bulk
// form, and of the list's form unless that has views instead. A field that accepts several values
// must be an array in the contract.
func TestPagesHaveEveryFilterOfSagas(t *testing.T) {
	contract, own := map[string]reflect.Kind{}, map[string]reflect.Kind{}
	for f := range reflect.TypeFor[client.SagaFilter]().Fields() {
		contract[jsonName(&f)] = kindOfField(&f)
	}
	for i := range sagaFilters {
		f := &sagaFilters[i]
		kind, field := reflect.String, f.field()
		switch field.Kind {
		case "lines":
			kind = reflect.Slice
		case "select":
			kind = reflect.Bool
		}
		own[f.Name] = kind
		listed := slices.ContainsFunc(filters, func(l web.Filter) bool { return l.Name == f.Name })
		if listed == (f.marks&viewed != 0) {
			t.Errorf("%s: a field of the list: %t", f.Name, listed)
		}
		if f.Time && field.Hint != "" {
			t.Errorf("%s: a bulk accepts no distance in time, and the hint is %q", f.Name, field.Hint)
		}
	}
	if diff := cmp.Diff(contract, own); diff != "" {
		t.Errorf("filters (-contract +pages):\n%s", diff)
	}
}

func jsonName(f *reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// kindOfField returns the kind of a member; times and names of states are texts.
func kindOfField(f *reflect.StructField) reflect.Kind {
	of := f.Type
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() == reflect.Slice || of.Kind() == reflect.Bool {
		return of.Kind()
	}
	return reflect.String
}
