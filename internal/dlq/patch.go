package dlq

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/strictjson"
)

// MaxPatch is the maximum number of operations in a JSON Patch.
const MaxPatch = 200

// The document is patched as a member of an object, so that it may be a scalar and may be replaced
// as a whole.
const (
	wrapBefore = `{"d":`
	wrapAfter  = `}`
	wrapPath   = "/d"
)

// Patched applies a JSON Patch (RFC 6902) to a JSON payload. Parts that the patch does not touch
// keep their order, and numbers keep their digits; white space may be removed. A test operation
// compares numbers by their text. If an operation is malformed or does not apply, nothing is
// changed, and the fault is Invalid with a pointer into the patch to the first such operation
// ("/2/path", or "" if the payload or the result is at fault).
func Patched(payload []byte, patch json.RawMessage) ([]byte, error) {
	if !jsonPayload(payload) {
		return nil, invalid("", "not_json", "only a JSON payload can be patched")
	}
	ops, err := decodePatch(patch)
	if err != nil {
		return nil, err
	}
	doc := []byte(wrapBefore + string(payload) + wrapAfter)
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	options.EscapeHTML = false
	options.AccumulatedCopySizeLimit = MaxPayload
	out, err := ops.ApplyWithOptions(doc, options)
	if err != nil {
		// The first operation that fails ends the shortest prefix that fails.
		n := sort.Search(len(ops), func(n int) bool {
			_, err := ops[:n+1].ApplyWithOptions(doc, options)
			return err != nil
		})
		return nil, refused(min(n, len(ops)-1), err)
	}
	inner, wrapped := strings.CutPrefix(string(out), wrapBefore)
	out = []byte(strings.TrimSuffix(inner, wrapAfter))
	if !wrapped || !jsonPayload(out) {
		return nil, invalid("", "not_json", "the result of the patch is not a JSON value that can be stored")
	}
	return out, nil
}

func refused(op int, err error) *fault.Error {
	pointer := fmt.Sprintf("/%d", op)
	var size *jsonpatch.AccumulatedCopySizeError
	switch {
	case errors.Is(err, jsonpatch.ErrTestFailed):
		return invalid(pointer, "test_failed", "the value in the payload is different").Because(err)
	case errors.Is(err, jsonpatch.ErrMissing), errors.Is(err, jsonpatch.ErrInvalidIndex):
		return invalid(pointer+"/path", "missing", "does not exist in the payload").Because(err)
	case errors.As(err, &size):
		return invalid(pointer, "too_large", "makes the payload larger than the limit").Because(err)
	}
	return invalid(pointer, "invalid", "cannot be applied to the payload").Because(err)
}

// patchOp is an operation as parsed for checking.
type patchOp struct {
	Op    string          `json:"op"`
	Path  *string         `json:"path"`
	From  *string         `json:"from"`
	Value json.RawMessage `json:"value"`
}

// CheckPatch validates a JSON Patch without a document. It returns nil or the fault that Patched
// would return.
func CheckPatch(patch json.RawMessage) error {
	_, err := decodePatch(patch)
	return err
}

func decodePatch(patch json.RawMessage) (jsonpatch.Patch, error) {
	var ops []patchOp
	if _, err := strictjson.Canonical(nil, patch, strictjson.Limits{}); err != nil || json.Unmarshal(patch, &ops) != nil {
		return nil, invalid("", "invalid", "must be an array of operations (RFC 6902)")
	}
	if len(ops) == 0 || len(ops) > MaxPatch {
		return nil, invalid("", "invalid", fmt.Sprintf("must have 1 to %d operations", MaxPatch))
	}
	out := make(jsonpatch.Patch, len(ops))
	for i, op := range ops {
		wrong := func(member, message string) (jsonpatch.Patch, error) {
			return nil, invalid(fmt.Sprintf("/%d/%s", i, member), "invalid", message)
		}
		made := jsonpatch.Operation{"op": quoted(op.Op)}
		needsValue, needsFrom := false, false
		switch op.Op {
		case "add", "replace", "test":
			needsValue = true
		case "move", "copy":
			needsFrom = true
		case "remove":
			if op.Path != nil && *op.Path == "" {
				return wrong("path", "the whole payload cannot be removed")
			}
		default:
			return wrong("op", "must be add, remove, replace, move, copy or test")
		}
		if op.Path == nil || !validPointer(*op.Path) {
			return wrong("path", "must be a JSON Pointer (RFC 6901)")
		}
		made["path"] = quoted(wrapPath + *op.Path)
		if needsFrom {
			if op.From == nil || !validPointer(*op.From) {
				return wrong("from", "must be a JSON Pointer (RFC 6901)")
			}
			if op.Op == "move" && strings.HasPrefix(*op.Path+"/", *op.From+"/") && *op.Path != *op.From {
				return wrong("from", "a value cannot be moved into itself")
			}
			made["from"] = quoted(wrapPath + *op.From)
		}
		if needsValue {
			if op.Value == nil {
				return wrong("value", "is required")
			}
			made["value"] = &op.Value
		}
		out[i] = made
	}
	return out, nil
}

func quoted(s string) *json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		b = []byte(`""`) // encoding a string cannot fail
	}
	raw := json.RawMessage(b)
	return &raw
}

// validPointer reports whether s is a JSON Pointer.
func validPointer(s string) bool {
	if s != "" && s[0] != '/' {
		return false
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}

func jsonPayload(payload []byte) bool {
	if len(payload) > maxJSON {
		return false
	}
	_, err := strictjson.Canonical(nil, payload, strictjson.Limits{})
	return err == nil
}

// maxJSON is the largest payload, in bytes, that is parsed as JSON. Larger payloads count as text.
const maxJSON = 1 << 20
