package trail

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// Seal is one link of a tenant's hash chain. It covers the events after those of the previous seal,
// up to and including To, in feed order. Once it is written, the seal makes it possible to detect
// that an event in that range was changed, removed or added. The next seal makes it possible to
// detect that the seal itself was changed.
type Seal struct {
	TenantID uuid.UUID
	Seq      int64    // starts at 1 and has no gaps
	From, To Position // the first and the last event that it covers
	Events   int      // 1..MaxSealed
	Prev     []byte   // Hash of the previous seal; 32 zero bytes for the first one
	Hash     []byte   // Sum of the events that it covers
	SealedAt time.Time
}

// MaxSealed is the maximum number of events that one seal covers.
const MaxSealed = 10_000

// Sum returns the expected value of Hash: the SHA-256 of Prev, tenant, sequence number, range and
// number of events, and each event's position and stored digest. Numbers are big-endian and take 8
// bytes; a tenant takes 16 bytes. Stores compute the same hash.
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
	Age      time.Duration // age of the first of them; at least 0
	Settled  bool          // the first event may be sealed, because no event can precede it any more
}

// Link is the part of an event, or of an operator's action, that a chain contains. Both are sealed
// in the same way.
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

// Sealed stores the seals of all tenants' events, or of their operators' actions.
type Sealed interface {
	// Unsealed lists the tenants with events that no seal covers.
	Unsealed(ctx context.Context) ([]Unsealed, error)
	// Seal durably adds a seal over up to MaxSealed events after the tenant's last seal, and
	// returns how many events it covers. It returns 0 if there are no such events or if another
	// node has just sealed them. Several nodes may call it concurrently.
	Seal(ctx context.Context, tenant uuid.UUID) (events int, err error)
	// Seals returns up to limit seals of a tenant from a sequence number on.
	Seals(ctx context.Context, tenant uuid.UUID, from int64, limit int) ([]Seal, error)
	// Links returns up to limit links after one position, up to and including another, in feed
	// order. It includes events that Feed would still hold back.
	Links(ctx context.Context, tenant uuid.UUID, after, upTo Position, limit int) ([]Link, error)
}

// Chain is Sealed for events. It can also return the events themselves.
type Chain interface {
	Sealed
	// Span returns the events of Links. It does not set the fields of StoredEvent that describe the
	// saga.
	Span(ctx context.Context, tenant uuid.UUID, after, upTo Position, limit int) ([]StoredEvent, error)
}

// EventRetention is how long audit events are kept after they were written. A field that is 0 or
// negative means forever.
type EventRetention struct {
	Live     time.Duration // in the live table, before they move to the archive
	Archived time.Duration // in the archive, which drops whole months
}

// EventArchive is the part of a trail that moves old events out of the live table. Archived events
// remain in the history of a saga and in the chain, but not in the feed. Seals are kept forever,
// including those of purged events (decision 0061).
type EventArchive interface {
	// ArchiveEvents durably moves the events of at most one seal of each tenant to the archive, and
	// drops at most one month of the archive. It returns how many events it has moved and dropped;
	// both are 0 if nothing is left to do. Events that an enabled webhook or a publication has not
	// read yet remain in the live table. An error for one tenant does not affect the others.
	ArchiveEvents(ctx context.Context, keep EventRetention) (archived, purged int64, err error)
	// ArchivedSeals returns the last of a tenant's seals whose events are in the archive, and the
	// last seal that may cover purged events; 0 means none.
	ArchivedSeals(ctx context.Context, tenant uuid.UUID) (archived, purged int64, err error)
}
