package web

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// body has a member of each type that bodies of the contract have.
type body struct {
	Name    string            `json:"name"`
	Reason  *string           `json:"reason,omitempty"`
	Level   *int              `json:"level,omitempty"`
	WaitMS  *int64            `json:"wait_ms,omitempty"`
	Share   *float64          `json:"share,omitempty"`
	Held    *bool             `json:"held,omitempty"`
	Ready   *bool             `json:"ready,omitempty"`
	ID      *uuid.UUID        `json:"id,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Topics  *[]string         `json:"topics,omitempty"`
	Content json.RawMessage   `json:"content,omitempty"`
	Nested  *struct {
		StartAt *time.Time `json:"start_at,omitempty"`
		Count   *int       `json:"count,omitempty"`
	} `json:"nested,omitempty"`
}

// A form built from a body has a field for every member, in the kind of its type, and what is
// filled in arrives as the body that it describes.
func TestAFormHasAFieldForEveryMemberOfItsBody(t *testing.T) {
	a := Action{NoReason: true, Fields: FieldsOf[body]([]Field{
		{Name: "name", Label: "Name"}, {Name: "ready", Label: "Ready", Options: YesNo},
		{Name: "level", Label: "Level", Kind: "select", Options: Labelled("1", "low")},
	}, "reason")}
	kinds, form := map[string]string{}, Form{}
	filled := map[string]string{
		"name": "a", "ready": "false", "level": "1", "wait_ms": "2 s", "share": "0.50", "held": "true",
		"id": uuid.Nil.String(), "labels": `{"a":"b"}`, "topics": `["x"]`, "content": "7",
		"nested.start_at": "2027-01-01T00:00:00Z", "nested.count": "3",
	}
	for _, f := range a.Fields {
		if f.Label == "" || filled[f.Name] == "" {
			t.Errorf("%q has the label %q", f.Name, f.Label)
		}
		kinds[f.Name], form[f.Name] = f.Kind, filled[f.Name]
	}
	if diff := cmp.Diff(map[string]string{
		"name": "", "ready": "bool", "level": "select", "wait_ms": "span", "share": "number", "held": "bool", "id": "",
		"labels": "json", "topics": "json", "content": "json", "nested.start_at": "", "nested.count": "number",
	}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if first := a.Fields[3]; first.Group == "" || a.Groups()[1].Title != first.Group {
		t.Errorf("members that the form does not list begin with %+v", first)
	}
	if label := a.Fields[len(a.Fields)-1].Label; label != "Nested: count" {
		t.Errorf("the last label is %q", label)
	}
	members, err := a.members(form)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	const text = `{"name": "a", "ready": false, "level": "1", "wait_ms": 2000, "share": 0.50, "held": true,
		"id": "00000000-0000-0000-0000-000000000000", "labels": {"a": "b"}, "topics": ["x"], "content": 7,
		"nested": {"start_at": "2027-01-01T00:00:00Z", "count": 3}}`
	if json.Unmarshal(sent, &got) != nil || json.Unmarshal([]byte(text), &want) != nil || !cmp.Equal(got, want) {
		t.Errorf("sent %s, want %s", sent, text)
	}
}
