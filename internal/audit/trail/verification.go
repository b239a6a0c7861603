package trail

// Tampering is a way in which an audit trail was altered.
type Tampering string

// Kinds of tampering.
const (
	DigestMismatch   Tampering = "digest_mismatch"   // an event's row differs from what was written
	MissingEvents    Tampering = "missing_events"    // fewer events than were sealed
	UnexpectedEvents Tampering = "unexpected_events" // more events than were sealed
	SealMismatch     Tampering = "seal_mismatch"     // events were replaced or moved, or a seal was changed
	MissingSeals     Tampering = "missing_seals"     // the chain has a gap
)

// Tamperings lists all kinds of tampering.
var Tamperings = []Tampering{DigestMismatch, MissingEvents, UnexpectedEvents, SealMismatch, MissingSeals}

// Tampered is a place at which an audit trail was altered.
type Tampered struct {
	Kind    Tampering
	Seq     int64  // the seal; 0: the event is not sealed yet
	EventID int64  // 0 unless it is a single known event
	Subject string // the saga of that event, the id of that action
	Detail  string // for people
}

// Verification is what a check of a tenant's audit trail found.
type Verification struct {
	CheckedSeals  int
	CheckedEvents int
	// ArchivedSeals counts the checked seals whose events are in the archive. PurgedEvents is the
	// number of events that PurgedSeals cover and that were dropped from the archive when their
	// retention expired. For these seals, the link to the previous seal and the remaining events
	// were checked.
	ArchivedSeals int
	PurgedSeals   int
	PurgedEvents  int
	// Unsealed counts the events after the last seal, up to MaxSealed. Their digests were checked
	// as well. It is set only if Next is 0.
	Unsealed int
	Next     int64     // the sequence number to continue from; 0: the whole chain was checked
	FirstBad *Tampered // nil: nothing was altered
	Head     *Seal     // the last seal that was checked; nil: none
}
