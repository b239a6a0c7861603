package web

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// FieldsOf completes the fields of a form whose body is a T of the contract. A field without a kind
// gets the kind that suits its member. Members that fields does not list, apart from those in
// without, follow in a group of their own, labelled with their names: the form can set every
// member, and saving an edited object, which replaces it, loses none.
func FieldsOf[T any](fields []Field, without ...string) []Field {
	kinds := map[string]string{}
	var rest []Field
	eachMember("", reflect.TypeFor[T](), func(name, kind string) {
		kinds[name] = kind
		listed := slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name })
		if !listed && !slices.Contains(without, name) {
			rest = append(rest, Field{Name: name, Label: sentenceCase(name)})
		}
	})
	if len(rest) > 0 {
		rest[0].Group = "Other members"
	}
	fields = append(slices.Clone(fields), rest...)
	for i := range fields {
		f := &fields[i]
		if f.Kind == "" {
			f.Kind = kinds[f.Name]
		}
		if f.Kind == "bool" && f.Options == nil {
			f.Options = append([]Option{{"", "default"}}, YesNo...)
		}
	}
	return fields
}

// eachMember calls f with each member of an object type in the order of their declaration, with
// members of nested objects named "outer.inner", and with the kind of its field; "" is a text.
func eachMember(prefix string, of reflect.Type, f func(name, kind string)) {
	for m := range of.Fields() {
		name, _, _ := strings.Cut(m.Tag.Get("json"), ",")
		name = prefix + name
		at := m.Type
		if at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
		switch kind := at.Kind(); {
		case kind == reflect.String, at == reflect.TypeFor[time.Time](), at == reflect.TypeFor[uuid.UUID]():
			f(name, "")
		case kind == reflect.Struct:
			eachMember(name+".", at, f)
		case kind == reflect.Bool:
			f(name, "bool")
		case !at.ConvertibleTo(reflect.TypeFor[float64]()):
			f(name, "json")
		case strings.HasSuffix(name, "_ms"):
			f(name, "span")
		default:
			f(name, "number")
		}
	}
}

// sentenceCase makes a label from the name of a member: "retry.max_attempts" is "Retry: max
// attempts".
func sentenceCase(name string) string {
	text := strings.ReplaceAll(strings.ReplaceAll(name, ".", ": "), "_", " ")
	return strings.ToUpper(text[:1]) + text[1:]
}
