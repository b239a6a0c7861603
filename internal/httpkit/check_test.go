package httpkit

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
)

func TestFieldsThatDependOnEachOther(t *testing.T) {
	type part struct {
		A *string `json:"a_name,omitempty" validate:"excluded_with=B C"`
		B *int    `json:"b,omitempty"`
		C *bool   `json:"c_name,omitempty"`
	}
	type whole struct {
		Part  *part  `json:"part,omitempty"`
		Parts []part `json:"parts,omitempty" validate:"dive"`
	}
	const saga = `"workflow_name":"order"`
	for _, tt := range []struct {
		body string
		into any
		want []fault.Field
	}{
		{`{"part":{"a_name":""},"parts":[{"b":1,"c_name":false}]}`, new(whole), nil},
		{`{"part":{"a_name":"","b":0},"parts":[{},{"a_name":"x","c_name":false}]}`, new(whole), []fault.Field{
			{Pointer: "/part/a_name", Code: "excluded", Message: "cannot be combined with b or c_name"},
			{Pointer: "/parts/1/a_name", Code: "excluded", Message: "cannot be combined with b or c_name"},
		}},
		{`{}`, new(json.RawMessage), nil},
		{`[1]`, new([]int), nil},
		{`{` + saga + `}`, new(api.SagaInput), nil},
		{`{"steps":[]}`, new(api.SagaInput), nil},
		{`{` + saga + `,"on_conflict":"return_existing","business_key":"k"}`, new(api.SagaInput), nil},
		{`{"on_conflict":"return_existing"}`, new(api.SagaInput), []fault.Field{
			{Pointer: "/on_conflict", Code: "excluded", Message: "requires business_key"},
			{Pointer: "/workflow_name", Code: "required", Message: "is required unless steps is set"},
		}},
		{`{"steps":[],"workflow_version":1}`, new(api.SagaInput), []fault.Field{
			{Pointer: "/workflow_version", Code: "excluded", Message: "cannot be combined with steps"},
		}},
		{`{"timeout_ms":1}`, new(api.DeadlineInput), nil},
		{`{}`, new(api.DeadlineInput), []fault.Field{
			{Pointer: "/timeout_ms", Code: "required", Message: "is required unless until is set"},
		}},
		{`{"timeout_ms":1,"until":"2030-01-01T00:00:00Z"}`, new(api.DeadlineInput), []fault.Field{
			{Pointer: "/until", Code: "excluded", Message: "cannot be combined with timeout_ms"},
		}},
		{`{"any_tenant":false,"tenant_id":"00000000-0000-0000-0000-000000000000","tenant_minor":0}`, new(api.APIKeyInput), nil},
		{`{"any_tenant":true,"tenant_id":"00000000-0000-0000-0000-000000000000"}`, new(api.APIKeyInput), []fault.Field{
			{Pointer: "/tenant_id", Code: "excluded", Message: "cannot be combined with any_tenant"},
		}},
		{`{"tenant_minor":0}`, new(api.APIKeyInput), []fault.Field{
			{Pointer: "/tenant_id", Code: "required", Message: "is required with tenant_region, tenant_major or tenant_minor"},
		}},
		{`{"chunk":""}`, new(api.LogInput), nil},
		{`{"chunk_base64":""}`, new(api.LogInput), nil},
		{`{}`, new(api.LogInput), []fault.Field{{Pointer: "/chunk", Code: "required", Message: "is required unless chunk_base64 is set"}}},
		{`{"chunk":"","chunk_base64":""}`, new(api.LogInput), []fault.Field{
			{Pointer: "/chunk", Code: "excluded", Message: "cannot be combined with chunk_base64"},
		}},
		{`{"payload":null,"target":{"method":"POST","url":"http://h/"}}`, new(api.DeadLetterRetryInput), nil},
		{`{"payload":null,"payload_base64":""}`, new(api.DeadLetterRetryInput), []fault.Field{
			{Pointer: "/payload", Code: "excluded", Message: "cannot be combined with payload_base64 or payload_patch"},
		}},
		{`{"target":{"topic":"t","url":"http://h/"}}`, new(api.DeadLetterRetryInput), []fault.Field{
			{Pointer: "/target/url", Code: "excluded", Message: "cannot be combined with topic or partition"},
		}},
	} {
		if err := json.Unmarshal([]byte(tt.body), tt.into); err != nil {
			t.Fatal(err)
		}
		var got []fault.Field
		if f := fault.As(Check(tt.into)); f != nil {
			if got = f.Fields; f.Code != CodeSchema || f.Kind != fault.Invalid {
				t.Errorf("%s: %v", tt.body, f)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%T %s (-want +got):\n%s", tt.into, tt.body, diff)
		}
	}
}
