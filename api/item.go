package api

import (
	"bytes"
	"encoding/json"
)

// Item is an element of a list whose elements are decoded independently: an element that cannot be
// decoded does not affect the others.
type Item[T any] struct {
	Value T
	Err   error  // why Value is incomplete; nil if it is complete
	Text  []byte // with Err: the member that could not be decoded
}

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (i *Item[T]) UnmarshalJSON(text []byte) error {
	if i.Err = json.Unmarshal(text, &i.Value); i.Err != nil {
		i.Text = bytes.Clone(text)
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (i Item[T]) MarshalJSON() ([]byte, error) { return json.Marshal(i.Value) }

// MarshalJSON implements json.Marshaler. A mistake that concerns the whole body has an empty
// pointer.
func (f ProblemField) MarshalJSON() ([]byte, error) {
	type members ProblemField
	if f.Pointer != "" || f.Parameter != "" || f.Header != "" {
		return json.Marshal(members(f))
	}
	return json.Marshal(struct {
		Pointer string `json:"pointer"`
		members
	}{members: members(f)})
}
