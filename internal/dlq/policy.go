package dlq

import (
	"path"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/retry"
)

// Policy defines how the letters of a topic are handled. A tenant's default policy has the topic ""
// and applies to topics without their own policy.
type Policy struct {
	TenantID uuid.UUID
	Topic    string
	Version  int64 // 0: not stored, from the configuration
	// Unreadable means that the stored backoff or alert is damaged. DefaultPolicy's backoff, or no
	// alert, is used instead.
	Unreadable bool

	MaxRetries int // for letters that do not specify their own; 0..MaxRetries
	// Backoff applies between retries; its MaxAttempts and RetryOn are ignored.
	Backoff   retry.Policy
	AutoRetry bool // letters are retried automatically
	HoldAll   bool // in the tenant's default: no letters of any topic are
	// RetryPermanent makes letters of class PERMANENT be retried automatically like others.
	// Otherwise they are held, because sending such a record again only makes it fail again.
	RetryPermanent bool
	Ordered        bool // letters with the same key are driven one at a time, in order of arrival
	// RetentionDays is how long letters that are RESOLVED, or DEAD and dealt with, stay live.
	// ArchiveDays is how long they then stay in the archive (seed 3: 30, 365).
	RetentionDays int
	ArchiveDays   int
	// MaxGenerations is the number of times that a letter may come back before it is POISON.
	MaxGenerations int
	Alert          Alert
	// Redact lists the payload members, as dotted paths, that are never shown.
	Redact []string
	// AllowedTargets lists the topics and URL prefixes, in addition to the original topic, that a
	// retry may name, as patterns of path.Match. If it is empty, a retry may name any topic that is
	// not a dead-letter topic, but no URL other than the letter's own.
	AllowedTargets []string
	// KeepHeaders lists headers that are sent although they describe the failure or a framework's
	// own retries (Left). Each entry is a name, or a prefix followed by an asterisk.
	KeepHeaders []string
	UpdatedBy   string
	UpdatedAt   time.Time

	// Held is what currently prevents automatic retries, as determined by PolicyOf; "" means
	// nothing.
	Held Hold
}

// Hold is a reason why scheduled letters are not retried automatically.
type Hold string

// The holds by policy come from auto_retry of the topic's policy, of the tenant's default or of the
// configuration, and from hold_all of the tenant's default.
const (
	HeldByRedrive       Hold = "redrive" // an unfinished redrive has collected the letter
	HeldByTopic         Hold = "topic_policy"
	HeldByDefault       Hold = "default_policy"
	HeldByConfiguration Hold = "configuration"
	HeldByAll           Hold = "hold_all"
)

// NextRetry returns the time of the next automatic retry, or nil if there is none. A letter that is
// held until after that time is retried later.
func (l *Letter) NextRetry() *time.Time {
	if l.NextRetryAt != nil {
		return l.NextRetryAt
	}
	return l.HeldRetryAt
}

// Retried reports whether a letter has a time for its next automatic retry. An unfinished redrive
// that has collected the letter holds this retry back, even if a person has set the time.
func (l *Letter) Retried() bool { return l.Status == Pending && l.NextRetry() != nil }

// HeldBy returns what holds a letter; policy is the hold on its topic's letters, or "" if there is
// none. A redrive drives its letters regardless of their policy, so it takes precedence.
func (l *Letter) HeldBy(policy Hold) Hold {
	switch {
	case l.Retried() && l.CollectedBy != uuid.Nil:
		return HeldByRedrive
	case l.Scheduled():
		return policy
	}
	return ""
}

// Scheduled reports whether a policy may hold a letter, which is the case unless a person has set
// the time of its next retry.
func (l *Letter) Scheduled() bool {
	return l.Retried() && l.Source.automatic() && !l.RetryAsked
}

// Failures returns how often the lineage of a letter has failed: the number of times it came back
// after a retry, plus the number of retries of the letter itself that have failed since. The wait
// before the next automatic retry grows with this number, so that a consumer that fails after every
// retry gets longer and longer pauses. The limits remain separate: Policy.MaxGenerations applies to
// a lineage, MaxRetries to one letter.
func (l *Letter) Failures() int { return l.Generation + l.RetryCount }

// Released returns when a released letter is retried after this many failures. The time is random
// within one backoff, because all held letters are released together. jitter is in [0,1).
func (p *Policy) Released(failures int, now time.Time, spread float64) time.Time {
	even := p.Backoff
	even.Jitter = new(0.0)
	return now.Add(time.Duration(spread * float64(even.Delay(failures+1, 0, 0)))).Truncate(time.Microsecond)
}

// defaultBackoff spreads three retries over about seven minutes, with full jitter (defect B13).
var defaultBackoff = retry.Policy{
	InitialIntervalMS: 60_000, MaxIntervalMS: 3_600_000, Multiplier: 2, Jitter: new(1.0),
}

// Alert contains the limits above which a topic's letters raise an alert. Zero fields mean no
// limit.
type Alert struct {
	Count    int64 `json:"count,omitempty"`     // open letters
	Rate     int64 `json:"rate,omitempty"`      // letters in five minutes
	AgeMS    int64 `json:"age_ms,omitempty"`    // age of the oldest open letter
	NewGroup bool  `json:"new_group,omitempty"` // an error never seen before
}

// Exceeded returns the JSON names of the alert's members that a topic exceeds. It compares open
// letters, arrivals, the age of the oldest open letter, and whether there is an unacknowledged
// error.
func (a Alert) Exceeded(open int64, topic *TopicStats, unknown bool, now time.Time) []string {
	var out []string
	for _, bound := range []struct {
		name         string
		limit, value int64
	}{{"count", a.Count, open}, {"rate", a.Rate, topic.Last5m}} {
		if bound.limit > 0 && bound.value > bound.limit {
			out = append(out, bound.name)
		}
	}
	if a.AgeMS > 0 && topic.Oldest != nil && now.Sub(*topic.Oldest).Milliseconds() > a.AgeMS {
		out = append(out, "age")
	}
	if a.NewGroup && unknown {
		out = append(out, "new_group")
	}
	return out
}

// NextRetry returns when a letter is retried automatically after this many failures, or nil if it
// is not. jitter is in [0,1).
func (p *Policy) NextRetry(source Source, failures int, now time.Time, jitter float64) *time.Time {
	if !p.AutoRetry || !source.automatic() {
		return nil
	}
	at := now.Add(p.Backoff.Delay(failures+1, jitter, 0)).Truncate(time.Microsecond) // the precision that is stored
	return &at
}

// Automatic lists the sources whose letters may be retried automatically. A saga, a job or a
// webhook has a longer retry policy of its own; once it is exhausted, the letter waits for an
// operator. Stores derive their conditions from this list.
var Automatic = []Source{FromKafka, FromREST}

// automatic reports whether letters of this source may be retried automatically.
func (s Source) automatic() bool { return slices.Contains(Automatic, s) }

// Allows reports whether a retry may be sent to a topic or URL other than the letter's own.
func (p *Policy) Allows(target string) bool {
	for _, pattern := range p.AllowedTargets {
		if ok, err := path.Match(pattern, target); ok && err == nil {
			return true
		}
	}
	return false
}

// AllowsTarget reports whether a letter of a topic may be sent to a target other than its own. If
// the policy names no targets, any topic is allowed; URLs are allowed only if the policy names
// them.
func (p *Policy) AllowsTarget(topic string, to *Target) bool {
	switch to.Kind {
	case ToKafka:
		return to.Topic == "" || to.Topic == topic || len(p.AllowedTargets) == 0 || p.Allows(to.Topic)
	case ToHTTP:
		return p.Allows(to.URL)
	}
	return false
}

// AllowsDrive reports whether a letter may be sent to a target, which must be its own or one for
// which AllowsTarget is true.
func (p *Policy) AllowsDrive(l *Letter, to *Target) bool {
	own := l.Destination(nil)
	return own.Kind == to.Kind && own.Topic == to.Topic && own.URL == to.URL || p.AllowsTarget(l.OriginalTopic, to)
}

// Alerting is a topic that exceeds its policy's alert.
type Alerting struct {
	Topic  string
	Alerts []string
	Open   int64 // open letters, counted up to the requested limit
	Oldest *time.Time
}

// TopicStats are the statistics of one topic.
type TopicStats struct {
	Topic     string
	Counts    map[Status]int64
	Capped    []Status   // statuses of which there are more letters than Counts says
	Oldest    *time.Time // arrival of the oldest open letter
	Last5m    int64      // arrivals
	Last1h    int64
	Last24h   int64
	Hourly    [24]int64 // arrivals in each of the last 24 hours, the latest hour last
	TopGroups []Group   // up to 5; only set by Topic
	Alerts    []string  // members of Policy.Alert that are exceeded
}
