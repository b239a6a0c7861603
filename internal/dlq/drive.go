package dlq

import (
	"cmp"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/retry"
)

// Drive is a claimed letter together with the content to send and its destination.
type Drive struct {
	Letter         // RETRYING, with Token and LeaseUntil
	Send   Content // the content of its Revision
	To     Target  // complete, with a topic or URL
	Number int     // number of the attempt
	Actor  string  // "" if it is automatic
	// ActorName is the actor's display name.
	ActorName string
	Forced    bool       // the letter was DEAD, and a failure leaves it DEAD
	Was       Resolution // resolution of a Forced letter before it was claimed
	Due       bool       // automatic, because the letter was due
	// KeepHeaders lists headers that the policy keeps although they are dropped by default.
	KeepHeaders []string
}

// Result is the outcome of a drive.
type Result struct {
	Outcome    AttemptOutcome
	Error      string // set unless Acknowledged
	StatusCode int
	RetryAfter time.Duration // the target's Retry-After, or the wait of a letter at a gate; 0: none
	Written    *Position
	StartedAt  time.Time
	EndedAt    time.Time
	// Accepted means that the target (a saga or a job run) has accepted the letter and will report
	// the result later. The letter stays RETRYING until then.
	Accepted bool
	// Missing means FailedDrive because the target does not exist, so that nothing was sent. It is
	// considered only for the letter's own target.
	Missing bool
	// TooLarge means FailedDrive because the letter is too large for the target, so that nothing
	// was sent. The attempt does not count, and there is no automatic retry, because only a person
	// can remedy this.
	TooLarge bool
	// Unreached means that no connection could be established, so that nothing was sent.
	Unreached bool
	// Fault is set only for Withdrawn. It describes what prevents the retry until someone changes
	// it; nil means an outage.
	Fault *fault.Error
}

// DriveEnded is the end of a retry that Skald made of the letter.
type DriveEnded struct {
	Drive  *Drive
	Result Result
	Policy *Policy // policy of the letter's topic
}

func (DriveEnded) event() {}

// Lost returns the end of a drive whose lease expired. unsent means that the letter was certainly
// not handed over, so that no retry took place; a letter without retries left then becomes DEAD
// again (invariant D3: a PENDING letter has a retry left).
func (d *Drive) Lost(unsent bool, started, now time.Time) Result {
	if !unsent {
		return Result{
			Outcome: Abandoned, Error: "retry abandoned: its node lost the lease, and the letter may have been sent",
			StartedAt: started, EndedAt: now,
		}
	}
	d.Forced = d.RetryCount >= d.MaxRetries
	return Result{
		Outcome: Withdrawn, Error: "retry withdrawn: its node lost the lease before the letter was sent", StartedAt: started, EndedAt: now,
	}
}

// Finish is the end of a drive. It is stored only if its Token still holds the letter.
type Finish struct {
	TenantID    uuid.UUID
	LetterID    uuid.UUID
	Token       uuid.UUID
	Status      Status
	Resolution  Resolution
	RetryCount  int
	NextRetryAt *time.Time
	TerminalAt  *time.Time
	RedriveID   uuid.UUID // zero: unchanged
	Attempt     Attempt
	At          time.Time
	Handover    uuid.UUID    // the note to be deleted; zero: there is none, or others still need it
	Fault       *fault.Error // as in Result; not stored

	RetryAfter time.Duration // as in Result; redrives honour it
}

// elsewhere reports whether a target other than the letter's own was requested.
func (d *Drive) elsewhere() bool {
	own := d.Destination(nil)
	partition := func(t *Target) int32 {
		if t.Partition == nil {
			return -1
		}
		return *t.Partition
	}
	return own.Kind != d.To.Kind || own.Topic != d.To.Topic || own.URL != d.To.URL || partition(&own) != partition(&d.To)
}

// Finished returns how a result changes the letter, in the form that is stored. After Accepted, the
// letter stays RETRYING and the driver stores nothing. If Apply returns an error, the driver stores
// nothing either, and the letter stays RETRYING until the lease expires.
func (d *Drive) Finished(r Result, p *Policy, m Moment) (Finish, error) {
	l := d.Letter
	l.Status = Retrying // as are all letters being retried, including one that was only partly read (Lost)
	c, err := Apply(l, DriveEnded{d, r, p}, m)
	if err != nil {
		return Finish{TenantID: d.TenantID, LetterID: d.ID, Token: d.Token, Status: Retrying}, err
	}
	return Finish{
		TenantID: d.TenantID, LetterID: d.ID, Token: d.Token, RedriveID: d.RedriveID,
		Status: c.After.Status, Resolution: c.After.Resolution, RetryCount: c.After.RetryCount,
		NextRetryAt: c.After.NextRetryAt, TerminalAt: c.After.TerminalAt,
		Attempt: *c.Attempt, At: m.Now, Fault: r.Fault, RetryAfter: r.RetryAfter,
	}, nil
}

// driveEnded decides how a result changes the letter (seed 3: success leads to RESOLVED, failures
// count, DEAD once no retries are left). Withdrawn does not count, because no retry took place.
func (d *decision) driveEnded(e DriveEnded) {
	drive, r, p, l := e.Drive, &e.Result, e.Policy, &d.After
	d.Attempt = &Attempt{
		LetterID: l.ID, Number: drive.Number, Token: l.Token, Revision: l.Revision, Target: drive.To,
		Outcome: r.Outcome, Error: r.Error,
		StatusCode: r.StatusCode, Written: r.Written, RedriveID: drive.RedriveID,
		Actor: drive.Actor, ActorName: drive.ActorName, StartedAt: r.StartedAt, EndedAt: r.EndedAt,
	}
	failures := l.Failures()
	l.Resolution, l.TerminalAt, l.NextRetryAt = "", nil, nil
	unmade := r.Outcome == Withdrawn || r.Missing && drive.elsewhere()
	switch {
	case r.Accepted:
		d.same = true
	case r.Outcome == Acknowledged:
		d.end(Acked, Redriven)
	case (unmade || r.TooLarge) && drive.Forced:
		d.end(RetryWithdraw, cmp.Or(drive.Was, Exhausted))
	case unmade:
		d.to(Pending, RetryWithdraw)
		again := *p
		again.AutoRetry = p.AutoRetry || drive.Due // a due letter stays scheduled: a policy may hold and release it
		l.NextRetryAt = later(l.nextRetry(&again, failures, d.m), r.RetryAfter, d.m)
	case r.TooLarge:
		d.to(Pending, RetryWithdraw)
	default:
		l.RetryCount++
		last := l.RetryCount >= l.MaxRetries
		l.RetryCount = min(l.RetryCount, l.MaxRetries)
		switch {
		case last && drive.Was != Poison:
			d.end(LastFailed, Exhausted)
		case drive.Forced:
			d.end(LastFailed, cmp.Or(drive.Was, Exhausted))
		default:
			d.to(Pending, RetryFailed)
			l.NextRetryAt = later(l.nextRetry(p, failures+1, d.m), r.RetryAfter, d.m)
		}
	}
}

// later postpones an automatic retry to the time that the target requested, if that is later. It
// postpones by at most an hour, as for the steps of sagas.
func later(at *time.Time, asked time.Duration, m Moment) *time.Time {
	wanted := m.Now.Add(min(asked, retry.MaxAfter)).Truncate(time.Microsecond) // the precision that is stored
	if at == nil || !wanted.After(*at) {
		return at
	}
	return &wanted
}
