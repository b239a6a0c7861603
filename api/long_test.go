package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// longText is a JSON object of at least n bytes, including characters that an encoder might change.
func longText(n int) json.RawMessage {
	return json.RawMessage(`{"note":"` + strings.Repeat("<&> ", n/4) + "\u2028" + `\n","n":1e-7}`)
}

func encodedPlainly(t *testing.T, body any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// An answer has the same bytes whether its members are long or short, and encoding does not change
// the value.
func TestLongMembersOfAnswersAreWrittenUnchanged(t *testing.T) {
	twice := &Saga{Payload: longText(4000), Metadata: longText(3000)}
	for name, body := range map[string]any{
		"short":      &Saga{SagaType: "a", Payload: longText(10)},
		"long":       &Saga{SagaType: "a", Payload: longText(long), Metadata: longText(10)},
		"just below": &Saga{Payload: longText(long - 200)},
		"several":    twice,
		"a value":    Saga{Payload: longText(9000), Result: longText(5000)},
		"a list":     []Saga{{Payload: longText(3000)}},
		"within lists": &SagaList{Sagas: []Saga{
			{Payload: longText(3000), StepLogs: []StepLog{{RequestPayload: longText(2000)}, {}}, Result: longText(2000)},
			{Payload: longText(10)},
		}},
		"a document":     longText(3000),
		"nothing":        struct{}{},
		"text":           strings.Repeat("x", 5000),
		"its own method": ownMethod{longText(3000)},
	} {
		t.Run(name, func(t *testing.T) {
			want := encodedPlainly(t, body)
			got, err := Encode(body)
			if err != nil || string(got) != want {
				t.Errorf("Encode: %v\n%s", err, cmp.Diff(want, string(got)))
			}
		})
	}
	if !bytes.Equal(twice.Payload, longText(4000)) {
		t.Error("Encode has changed its argument")
	}
}

// ownMethod has its own JSON encoding.
type ownMethod struct{ Text json.RawMessage }

func (ownMethod) MarshalJSON() ([]byte, error) { return []byte(`"other"`), nil }

func requestOf(body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
}

// A request is decoded to the same values as with encoding/json alone.
func TestLongMembersOfRequestsAreDecodedUnchanged(t *testing.T) {
	for name, text := range map[string]string{
		"short":                            `{"workflow_name":"a","payload":{"x":1}}`,
		"long":                             `{"workflow_name":"a","payload":` + string(longText(5000)) + `,"priority":3}`,
		"first":                            `{"payload":` + string(longText(5000)) + `,"workflow_name":"a"}`,
		"several":                          `{"metadata":` + string(longText(2000)) + `,"payload":` + string(longText(5000)) + `}`,
		"long text elsewhere":              `{"workflow_name":"` + strings.Repeat("n", 5000) + `","payload":{"x":1}}`,
		"names with escapes":               `{"\u0077orkflow_name":"a","x\ty":2,"payload":` + string(longText(5000)) + `}`,
		"null":                             `{"payload":null,"workflow_name":"` + strings.Repeat("n", 5000) + `"}`,
		"a member of the same name within": `{"metadata":{"payload":` + string(longText(5000)) + `},"workflow_name":"a"}`,
	} {
		t.Run(name, func(t *testing.T) {
			var want, got SagaInput
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatal(err)
			}
			if err := decode(requestOf(text), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, text := range map[string]string{
		"nothing":    ``,
		"a list":     `[` + strings.Repeat("1,", 2000) + `1]`,
		"wrong type": `{"workflow_name":7,"payload":` + string(longText(5000)) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			var body SagaInput
			err := decode(requestOf(text), &body)
			if err == nil || (err == io.EOF) != (text == "") { //nolint:errorlint // as encoding/json returns it
				t.Errorf("decode: %v", err)
			}
		})
	}
}
