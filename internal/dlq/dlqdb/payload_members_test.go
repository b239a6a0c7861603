package dlqdb

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// membersDecoded implements members with the standard decoder.
func membersDecoded(doc []byte) []string {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	w := decodedWalk{tokens: d}
	w.value("", 0)
	return w.found
}

// decodedWalk goes through a text that is known to be JSON.
type decodedWalk struct {
	tokens *json.Decoder
	found  []string
}

// value reads one value. It returns false when the limit or the end has been reached. The path ""
// stands for the whole text, or for a value that is not indexed.
func (w *decodedWalk) value(path string, depth int) bool {
	t, err := w.tokens.Token()
	if err != nil {
		return false
	}
	delim, isDelim := t.(json.Delim)
	if !isDelim {
		if s, ok := scalar(t); ok && path != "" && depth <= maxPayloadDepth {
			w.found = append(w.found, memberTerm(path, s))
		}
		return len(w.found) < maxPayloadTerms
	}
	for i := 0; w.tokens.More(); i++ {
		name := strconv.Itoa(i)
		if delim == '{' {
			key, err := w.tokens.Token()
			if err != nil {
				return false
			}
			name, _ = key.(string)
		}
		if !w.value(below(path, name, depth), depth+1) {
			return false
		}
	}
	_, err = w.tokens.Token() // the closing delimiter
	return err == nil
}

func FuzzMembersAreThoseOfTheDecoder(f *testing.F) {
	for _, doc := range []string{
		`{"a":1,"b":"x","c":true,"d":null,"e":false}`, ` { "a" : { "b" : [ 1 , -2.50e3 , { "c" : "\u00e9\"\\" } ] } , "d.e" : 1 , "" : 2 } `,
		`[1,[],{},[[2]],"",1e999,-0]`, `"x"`, `5`, `{"é":"ü","a":"` + strings.Repeat("x", 300) + `"}`, "[" +
			strings.Repeat("[", 50) + strings.Repeat("]", 50) + ",1]",
		"[" + strings.Repeat("1,", 99) + "1]",
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if !json.Valid(doc) {
			members(doc) // it must end anyway
			return
		}
		if d := cmp.Diff(membersDecoded(doc), members(doc)); d != "" {
			t.Errorf("%s (-decoder +ours):\n%s", doc, d)
		}
	})
}

func BenchmarkMembers(b *testing.B) {
	doc := []byte(`{"order_id":"00000001-0000-7000-8000-000000000001","customer":"customer-1","items":[{"sku":"sku-1","quantity":1,"price":19.90}],"currency":"EUR","placed_at":"2026-03-04T05:06:07Z","note":"none"}`)
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			members(doc)
		}
	})
	b.Run("decoder", func(b *testing.B) {
		for b.Loop() {
			membersDecoded(doc)
		}
	})
}
