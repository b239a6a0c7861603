package workflow

import (
	"strings"
	"testing"
)

// Members that a later version may support are rejected today instead of being silently ignored.
func TestWordsOfLaterDefinitionsAreRefused(t *testing.T) {
	const step = `{"name": "pay", "action": {"http": {"url": "http://x/1"}}, "compensation": "none"`
	if _, err := ParseJSON([]byte(`{"name": "order", "steps": [`+step+`}]}`), Limits{}); err != nil {
		t.Fatal(err)
	}
	for word, def := range map[string]string{
		"max_parallel": `{"name": "order", "max_parallel": 4, "steps": [` + step + `}]}`,
	} {
		if _, err := ParseJSON([]byte(def), Limits{}); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
}
