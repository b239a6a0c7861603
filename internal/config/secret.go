package config

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is text that must not be shown. Every fmt verb that can print a string, and the JSON,
// YAML, text and slog encodings, show [secret], whether it is set or not. string(s) is the only way
// to get the value. Two leaks remain, both inherent to fmt: %p (go vet refuses it), and a Secret in
// an unexported field, whose methods fmt cannot call, so keep it in exported fields.
type Secret string

const hidden = "[secret]"

// Format prints [secret] for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// String returns [secret].
func (Secret) String() string { return hidden }

// GoString returns [secret].
func (Secret) GoString() string { return hidden }

// MarshalText returns [secret], for every encoding without a method here.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON returns "[secret]".
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalYAML returns [secret].
func (Secret) MarshalYAML() (any, error) { return hidden, nil }

// LogValue logs [secret].
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
