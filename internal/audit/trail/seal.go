package trail

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// Seal is one link of a tenant's hash chain. It covers the events after those of the
// previous seal, up to and including To, in feed order. Once it is written, changing,
// removing or adding an event in that range is detected by the seal, and changing a
// seal by the next one.
type Seal struct {
	TenantID uuid.UUID
	Seq      int64    // from 1, without a gap
	From, To Position // of the first and the last event it covers
	Events   int      // 1..MaxSealed
	Prev     []byte   // Hash of the seal before; 32 zero bytes for the first
	Hash     []byte   // Sum of the events it covers
	SealedAt time.Time
}

// MaxSealed is the maximum number of events that one seal covers.
const MaxSealed = 10_000

// Sum returns what Hash must be: the SHA-256 of Prev, tenant, sequence, range
// and number of events, and each event's position and stored digest. Stores
// compute the same (numbers are big-endian, 8 bytes; a tenant has 16).
func (s *Seal) Sum(links []Link) [sha256.Size]byte {
	b := make([]byte, 0, len(s.Prev)+16+6*8+len(links)*(2*8+sha256.Size))
	b = append(append(b, s.Prev...), s.TenantID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.Seq)) //nolint:gosec // at least 1
	b = s.To.append(s.From.append(b))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Events)) //nolint:gosec // at least 1
	for i := range links {
		b = append(links[i].Position.append(b), links[i].Stored...)
	}
	return sha256.Sum256(b)
}

func (p Position) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, p.TxID)
	return binary.BigEndian.AppendUint64(b, uint64(p.ID)) //nolint:gosec // any 64 bits will do
}

// Unsealed is a tenant with events that no seal covers yet.
type Unsealed struct {
	TenantID uuid.UUID
	Age      time.Duration // of the first of them; at least 0
	Settled  bool          // that one may be sealed: nothing can precede it now
}

// Link is the part of an event, or of an operator action, that a chain contains; both are
// sealed in the same way.
type Link struct {
	Position
	Stored  []byte // the digest that was stored with it
	Intact  bool   // its content has that digest, and the row contains nothing else
	Subject string // the saga of an event, the id of an action
}

// LinksOf returns the links of events.
func LinksOf(events []StoredEvent) []Link {
	links := make([]Link, len(events))
	for i := range events {
		e := &events[i]
		digest := e.Digest()
		links[i] = Link{
			Position: e.Position,
			Stored:   e.Stored,
			Intact:   !e.Altered && bytes.Equal(digest[:], e.Stored),
			Subject:  e.SagaID.String(),
		}
	}
	return links
}

// Sealed stores the seals of all tenants' events, or of their operator actions.
type Sealed interface {
	// Unsealed lists the tenants with events that no seal covers.
	Unsealed(ctx context.Context) ([]Unsealed, error)
	// Seal adds a seal over up to MaxSealed events after the tenant's last seal, durably on
	// return, and returns how many it covers. 0: there were none, or another node has just
	// sealed them. Safe for concurrent use by several nodes.
	Seal(ctx context.Context, tenant uuid.UUID) (events int, err error)
	// Seals returns up to limit seals of a tenant from a sequence number on.
	Seals(ctx context.Context, tenant uuid.UUID, from int64, limit int) ([]Seal, error)
	// Links returns up to limit links after one position, up to and including another,
	// in feed order. It includes events that Feed would still hold back.
	Links(ctx context.Context, tenant uuid.UUID, after, upTo Position, limit int) ([]Link, error)
}

// Chain is Sealed for events, and can also return them.
type Chain interface {
	Sealed
	// Span returns the events of Links. The fields of StoredEvent about the saga are
	// not set.
	Span(ctx context.Context, tenant uuid.UUID, after, upTo Position, limit int) ([]StoredEvent, error)
}

// EventRetention is how long audit events are kept, from when they were written. A field that is
// not above 0 means forever.
type EventRetention struct {
	Live     time.Duration // in the live table, before they move to the archive
	Archived time.Duration // in the archive, which drops whole months
}

// EventArchive is the part of a trail that moves old events out of the live table. The feed does
// not include archived events; the history of a saga and the chain do, and seals are kept forever,
// even those of events that were purged (decision 0061).
type EventArchive interface {
	// ArchiveEvents moves the events of at most one seal of each tenant to the archive and
	// drops at most one month of the archive, durably on return. It returns how many events it
	// moved and dropped; 0 and 0 when nothing is left to do. Events that an enabled webhook or
	// a publication has not read yet stay. An error for one tenant does not affect the others.
	ArchiveEvents(ctx context.Context, keep EventRetention) (archived, purged int64, err error)
	// ArchivedSeals returns the last of a tenant's seals whose events are in the archive, and
	// the last one that may cover purged events. 0: none.
	ArchivedSeals(ctx context.Context, tenant uuid.UUID) (archived, purged int64, err error)
}
