package audit

import (
	"bytes"
	"context"
	"math"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/trail"
)

// verification is a verification in progress.
type verification struct {
	trail.Verification
	archived, purged int64 // the last seals whose events are archived, and may be purged
}

// maxVerified limits the number of events that one call checks, unless a single seal covers more.
const maxVerified = 20_000

// Verify checks a tenant's seals from a sequence number on, at most limit of them, and every event
// that they cover. For each event it checks that the content has the stored digest, and for each
// seal that it was computed from exactly these events. It trusts the seal before from. It stops at
// the first mismatch.
func Verify(
	ctx context.Context,
	chain trail.Sealed,
	tenant uuid.UUID,
	from int64,
	limit int,
) (trail.Verification, error) {
	var r verification
	if err := r.lookAtArchive(ctx, chain, tenant); err != nil {
		return r.Verification, err
	}
	prev := trail.Seal{Hash: make([]byte, 32)}
	if from > 1 {
		before, err := chain.Seals(ctx, tenant, from-1, 1)
		if err != nil {
			return r.Verification, err
		}
		if len(before) == 0 {
			return r.Verification, nil // after the end of the chain
		}
		if prev = before[0]; prev.Seq != from-1 {
			r.FirstBad = &trail.Tampered{
				Kind:   trail.MissingSeals,
				Seq:    from - 1,
				Detail: "the chain has later seals, but none with this number",
			}
			return r.Verification, nil
		}
	}
	seals, err := chain.Seals(ctx, tenant, from, limit+1)
	if err != nil {
		return r.Verification, err
	}
	for i := range seals {
		s := &seals[i]
		if i == limit || r.CheckedEvents > 0 && r.CheckedEvents+s.Events > maxVerified {
			r.Next = s.Seq
			return r.Verification, nil
		}
		bad, err := r.checkSeal(ctx, chain, tenant, &prev, s)
		if err != nil || bad != nil {
			r.FirstBad = bad
			return r.Verification, err
		}
		r.CheckedSeals++
		if s.Seq <= r.archived {
			r.ArchivedSeals++
		}
		r.Head = s
		prev = *s
	}
	err = r.checkTail(ctx, chain, tenant, prev.To)
	return r.Verification, err
}

// lookAtArchive determines which seals have their events in the archive.
func (r *verification) lookAtArchive(ctx context.Context, chain trail.Sealed, tenant uuid.UUID) (err error) {
	if a, may := chain.(trail.EventArchive); may {
		r.archived, r.purged, err = a.ArchivedSeals(ctx, tenant)
	}
	return err
}

// checkSeal compares a seal with the previous one and with the events that it covers.
func (r *verification) checkSeal(
	ctx context.Context,
	chain trail.Sealed,
	tenant uuid.UUID,
	prev, s *trail.Seal,
) (*trail.Tampered, error) {
	switch {
	case s.Seq != prev.Seq+1:
		return &trail.Tampered{
			Kind:   trail.MissingSeals,
			Seq:    prev.Seq + 1,
			Detail: "the chain has later seals, but none with this number",
		}, nil
	case !bytes.Equal(s.Prev, prev.Hash):
		return &trail.Tampered{
			Kind:   trail.SealMismatch,
			Seq:    s.Seq,
			Detail: "the seal does not match the previous one: one of the two was changed",
		}, nil
	case s.To.Compare(prev.To) <= 0 || s.Events < 1 || s.Events > trail.MaxSealed:
		return &trail.Tampered{
			Kind:   trail.SealMismatch,
			Seq:    s.Seq,
			Detail: "the seal was changed: the range it claims to cover is impossible",
		}, nil
	}
	events, err := chain.Links(ctx, tenant, prev.To, s.To, s.Events+1)
	if err != nil {
		return nil, err
	}
	if bad := r.checkDigests(events, s.Seq); bad != nil {
		return bad, nil
	}
	if len(events) < s.Events { // they may have been purged a moment ago
		if err := r.lookAtArchive(ctx, chain, tenant); err != nil {
			return nil, err
		}
	}
	bad := &trail.Tampered{Seq: s.Seq}
	switch sum := s.Sum(events); {
	case len(events) < s.Events && s.Seq <= r.purged:
		r.PurgedSeals++
		r.PurgedEvents += s.Events - len(events)
		return nil, nil
	case len(events) < s.Events:
		bad.Kind, bad.Detail = trail.MissingEvents, "sealed events are missing"
	case len(events) > s.Events:
		bad.Kind, bad.Detail = trail.UnexpectedEvents, "the seal's range contains events that did not exist when the seal was made"
	case !bytes.Equal(sum[:], s.Hash):
		bad.Kind, bad.Detail = trail.SealMismatch, "the events differ from those that were sealed, or the seal was changed"
	default:
		return nil, nil
	}
	return bad, nil
}

func (r *verification) checkDigests(events []trail.Link, seq int64) *trail.Tampered {
	for i := range events {
		e := &events[i]
		if !e.Intact {
			return &trail.Tampered{
				Kind:    trail.DigestMismatch,
				Seq:     seq,
				EventID: e.ID,
				Subject: e.Subject,
				Detail:  "the event differs from what was written",
			}
		}
		r.CheckedEvents++
	}
	return nil
}

// checkTail checks the events that no seal covers yet.
func (r *verification) checkTail(ctx context.Context, chain trail.Sealed, tenant uuid.UUID,
	after trail.Position) error {
	end := trail.Position{TxID: math.MaxInt64, ID: math.MaxInt64}
	events, err := chain.Links(ctx, tenant, after, end, trail.MaxSealed)
	if err != nil {
		return err
	}
	r.Unsealed = len(events)
	r.FirstBad = r.checkDigests(events, 0)
	return nil
}
