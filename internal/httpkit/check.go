package httpkit

import (
	"errors"
	"reflect"
	"strings"
	"sync"

	"github.com/go-playground/validator/v10"

	"github.com/skald-saga/skald/internal/fault"
)

// bodyRules are the tags on the contract's types. They express rules between several fields of a
// body, which a schema cannot express (docs/decisions/0054).
var bodyRules = sync.OnceValue(func() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return jsonName(f) })
	return v
})

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// Check returns nil if the fields of a decoded body may be combined, or if the body is not a
// struct. The fault is the same as for a schema violation.
func Check(body any) error {
	var broken validator.ValidationErrors
	if !errors.As(bodyRules().Struct(body), &broken) {
		return nil
	}
	var wrong fault.Mistakes
	for _, e := range broken {
		_, path, _ := strings.Cut(e.Namespace(), ".")
		code, message := describeRule(e, partners(reflect.TypeOf(body), e))
		wrong.Add("/"+steps.Replace(path), code, "%s", message)
	}
	return SchemaFault(wrong...)
}

// steps converts a validator path to a JSON Pointer. Names in the contract never need escaping.
var steps = strings.NewReplacer(".", "/", "[", "/", "]", "")

// describeRule returns the API's code and message for a broken rule.
func describeRule(e validator.FieldError, others []string) (code, message string) {
	switch others := list(others, "or"); e.Tag() {
	case "required_without":
		return "required", "is required unless " + others + " is set"
	case "required_with":
		return "required", "is required with " + others
	case "excluded_with", "excluded_if":
		return "excluded", "cannot be combined with " + others
	case "excluded_without":
		return "excluded", "requires " + others
	}
	return "invalid", "breaks the rule " + e.Tag() + " of the contract"
}

// list returns "a", "a or b", "a, b or c".
func list(words []string, last string) string {
	n := len(words)
	if n < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n-1], ", ") + " " + last + " " + words[n-1]
}

// partners returns the JSON names of the other fields that a rule refers to. The rule contains
// their Go names in the struct that contains the field.
func partners(body reflect.Type, e validator.FieldError) (names []string) {
	around := body
	path := strings.Split(e.StructNamespace(), ".")
	for _, name := range path[1 : len(path)-1] {
		name, _, _ = strings.Cut(name, "[")
		f, _ := structOf(around).FieldByName(name)
		around = f.Type
	}
	for i, word := range strings.Fields(e.Param()) {
		if strings.HasSuffix(e.Tag(), "_if") && i%2 == 1 {
			continue // this is the value of the previous field
		}
		if f, ok := structOf(around).FieldByName(word); ok {
			names = append(names, jsonName(f))
		}
	}
	return names
}

// structOf returns the type behind pointers and lists.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}
