package dlq

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skald-saga/skald/internal/audit/operator"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// Routes describes the targets that a server can send letters to. Every retry is checked
// against it.
type Routes struct {
	Kinds []TargetKind // kinds of targets that it has drivers for
	// Forbidden reports whether letters must never be sent to a topic because records written there
	// come back as letters (invariant D6). nil means that no topic is forbidden.
	Forbidden func(topic string) bool
	// Gate returns the participant at whose gate letters for a target currently wait, or "" if they
	// need not wait. A nil Gate means that there are no gates.
	Gate func(tenant uuid.UUID, to *Target) (participant string)
}

// GateOf returns the participant at whose gate letters for a target currently wait, or "" if they
// need not wait.
func (w Routes) GateOf(tenant uuid.UUID, to *Target) string {
	if w.Gate == nil || to.Kind != ToHTTP {
		return ""
	}
	return w.Gate(tenant, to)
}

// Reaches reports whether targets of a kind are configured.
func (w Routes) Reaches(kind TargetKind) bool { return slices.Contains(w.Kinds, kind) }

// Forbids reports whether letters must never be sent to a topic.
func (w Routes) Forbids(topic string) bool {
	return w.Forbidden != nil && topic != "" && w.Forbidden(topic)
}

// Refusal is the reason why a letter is not driven to a target.
type Refusal struct {
	Why RefusalReason
	To  Target
	Own bool // the target is the letter's own
}

// RefusalReason is the kind of a Refusal.
type RefusalReason string

// Reasons.
const (
	ForbiddenTopic   RefusalReason = "forbidden topic"
	DisallowedTarget RefusalReason = "disallowed target" // disallowed by the policy of its topic
	UnreachableKind  RefusalReason = "unreachable kind"
	TruncatedPayload RefusalReason = "truncated payload"
)

// ReadAsDeadLetters is the refusal of a target that is a dead-letter topic.
const ReadAsDeadLetters = "is a dead-letter topic: messages sent there come back as dead letters"

// Aim returns the reason why a letter must not be sent to a target, or nil if it may be sent. A nil
// to means the letter's own target, which every policy allows. p is the policy of the letter's
// topic; nil means that no policy is checked.
func (w Routes) Aim(l *Letter, to *Target, p *Policy) *Refusal {
	at := l.Destination(to)
	switch {
	case at.Kind == ToKafka && w.Forbids(at.Topic):
		return &Refusal{ForbiddenTopic, at, to == nil}
	case to != nil && p != nil && !p.AllowsDrive(l, &at):
		return &Refusal{DisallowedTarget, at, false}
	}
	return nil
}

// Refuses returns the reason why a claimed letter is not sent, or nil if it is sent. p is the
// policy of its topic, which could not be checked earlier for a redrive of several topics.
func (w Routes) Refuses(d *Drive, p *Policy) *Refusal {
	if d.RedriveID == uuid.Nil {
		p = nil // the target was checked against the policy when it was named
	}
	if r := w.Aim(&d.Letter, &d.To, p); r != nil {
		return r
	}
	if d.Revision == 0 && slices.Contains(d.Labels, LabelTruncated) {
		return &Refusal{Why: TruncatedPayload, To: d.To}
	}
	return nil
}

// String returns the reason in the form recorded for a retry.
func (r *Refusal) String() string {
	switch r.Why {
	case ForbiddenTopic:
		return fmt.Sprintf("topic %q is a dead-letter topic: choose another target", r.To.Topic)
	case DisallowedTarget:
		return "the policy of the letter's topic does not allow the target"
	case UnreachableKind:
		return TargetNotConfigured(r.To.Kind)
	}
	return "the payload was truncated: retry the letter with the whole payload"
}

// Fault returns the fault for the requester of the retry: Invalid with CodeTarget, or Unavailable
// with CodeNoKafka.
func (r *Refusal) Fault() *fault.Error {
	pointer, why := "/target/topic", ReadAsDeadLetters
	switch {
	case r.Why == UnreachableKind:
		return fault.New(fault.Unavailable, CodeNoKafka, "%s", r)
	case r.Why == DisallowedTarget:
		why = "must be the letter's own target or one of the policy's allowed_targets"
		if r.To.Kind == ToHTTP {
			pointer = "/target/url"
		}
	case r.Own:
		why = "the letter's own topic " + ReadAsDeadLetters
	}
	return fault.New(fault.Invalid, CodeTarget, "%s: %s", pointer, why).With(fault.Field{Pointer: pointer,
		Code: "not_allowed", Message: why})
}

// Claimable returns the reason why a letter cannot be claimed, or nil if it can. It does not
// consider older letters with the same key. Faults: Precondition CodeStale; Conflict; Invalid
// CodeTarget; Unavailable CodeNoKafka.
func (l *Letter) Claimable(c *Claim) error {
	if c.Version != 0 && c.Version != l.Version {
		return Stale(l.ID, l.Version)
	}
	if err := l.Unretryable(c.Force); err != nil {
		return err
	}
	if c.Target != nil {
		if r := c.Routes.Aim(l, c.Target, nil); r != nil {
			return r.Fault()
		}
	}
	if to := l.Destination(c.Target); !c.Routes.Reaches(to.Kind) {
		return (&Refusal{Why: UnreachableKind, To: to}).Fault()
	}
	return nil
}

// KeyBlocked returns the fault for a letter that waits for older open letters with the same key.
func KeyBlocked(older []string) *fault.Error {
	which := "older dead letters with the same key are open"
	if len(older) == 1 {
		which = "an older dead letter with the same key is open"
	}
	return fault.New(fault.Conflict, CodeKeyBlocked, "%s: %s", which, strings.Join(older, ", ")).
		Allowing([]string{VerbDiscard, VerbResolve})
}

// Claim is a request to retry one letter now.
type Claim struct {
	TenantID uuid.UUID
	LetterID uuid.UUID
	Version  int64     // 0: any
	Force    bool      // claim the letter even if it is DEAD
	Revision *Revision // nil: the current revision; otherwise stored with the claim
	Target   *Target   // nil: the current target
	// Routes contains the targets that this server can reach. Letters for other targets are not
	// claimed.
	Routes Routes
	Actor  string
	By     operator.Action
}

// InOrderOf returns the fault for a manual retry of a letter whose redrive sends the letters of
// each key one after the other.
func InOrderOf(redrive uuid.UUID) *fault.Error {
	return fault.New(fault.Conflict, CodeKeyBlocked, "redrive %s sends the letters with this key in order: cancel the "+
		"redrive, or wait until it ends", redrive).Allowing([]string{VerbDiscard, VerbResolve})
}
