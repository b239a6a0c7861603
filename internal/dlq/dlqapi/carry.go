package dlqapi

import (
	"slices"
	"strconv"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

// carryable returns nil if the target can carry everything that the retry must send: whatever a
// caller sets is either sent or rejected, never silently dropped. Otherwise it returns an Invalid
// fault.
func carryable(l *dlq.Letter, claim *dlq.Claim, content dlq.Content, policy *dlq.Policy,
	b *api.DeadLetterRetryInput) error {
	to := l.Destination(claim.Target)
	var lost []string // names of headers that cannot be sent
	switch to.Kind {
	case dlq.ToKafka, dlq.ToHTTP:
		if to.Kind == dlq.ToKafka {
			lost = dlq.LeftOut(content.Headers, policy.KeepHeaders)
			break
		}
		carried, err := dlq.CarryOverHTTP(content, l.SameHost(&to), policy.KeepHeaders...)
		if err != nil {
			return invalidAt(carriedIn(b), err)
		}
		lost = append(carried.Dropped, carried.Withheld...)
	default:
		if len(b.HeadersPatch) > 0 {
			return httpkit.SchemaFault(fault.Field{Pointer: "/headers_patch", Code: "excluded", Message: "headers are allowed for Kafka and HTTP targets only"})
		}
		if b.KeyBase64 != nil || b.Target != nil && b.Target.KeyBase64 != nil {
			return httpkit.SchemaFault(fault.Field{Pointer: "/key_base64", Code: "excluded", Message: "a key is allowed for Kafka and HTTP targets only"})
		}
	}
	for i, p := range b.HeadersPatch {
		pointer := "/headers_patch/" + strconv.Itoa(i) + "/name"
		switch {
		case p.Op == api.DeadLetterHeaderPatchOpRemove:
		case dlq.OwnHeader(p.Name):
			return httpkit.SchemaFault(fault.Field{Pointer: pointer, Code: "reserved", Message: "is reserved: Skald sets it on every retry"})
		case slices.Contains(lost, p.Name):
			return httpkit.SchemaFault(fault.Field{Pointer: pointer, Code: "not_sent", Message: "is not sent to this target: it describes the failure, counts a framework's own retries or holds credentials"})
		}
	}
	return nil
}

// carriedIn returns the member of a retry that determines whether a request can carry everything.
func carriedIn(b *api.DeadLetterRetryInput) string {
	switch {
	case len(b.HeadersPatch) > 0:
		return "/headers_patch"
	case b.KeyBase64 != nil:
		return "/key_base64"
	}
	return "/target"
}

// invalidAt attributes all field errors of a fault to one member of the body.
func invalidAt(pointer string, err error) error {
	f := fault.As(err)
	if f == nil {
		return err
	}
	fields := slices.Clone(f.Fields)
	for i := range fields {
		fields[i].Pointer = pointer
	}
	return httpkit.FieldsFault(f.Kind, f.Code, fields)
}
