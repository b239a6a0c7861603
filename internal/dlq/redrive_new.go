package dlq

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/fault"
)

// Limits of redrives.
const (
	MinRate            = 0.01 // letters per second, that is, one in 100 seconds
	DefaultConcurrency = 8
	MaxConcurrency     = 64
	maxWatchSeconds    = 24 * 60 * 60
	maxAhead           = 366 * 24 * time.Hour
)

// RedriveLimits is the configuration of redrives.
type RedriveLimits struct {
	DefaultRate float64 // letters per second if the request specifies no rate; positive
	MaxRate     float64 // at least DefaultRate
	// Bulk is the number of letters that an operator may change in one redrive. A larger redrive,
	// or one without a limit, requires an administrator.
	Bulk int64
}

// RedriveRequest is a client's request for a redrive.
type RedriveRequest struct {
	// All confirms that every letter is meant. Without it, a filter that restricts nothing is
	// rejected (trap X31).
	All bool
	// Unexplained means that the request needs no reason, because it only counts letters, or
	// because its route has always worked without a reason.
	Unexplained bool
}

// NewRedrive completes a requested redrive. Omitted fields get their defaults, and a filter without
// statuses gets those to which the action applies. The redrive starts as PENDING or
// AWAITING_APPROVAL. Fault: Invalid, with a field for each mistake.
func NewRedrive(r Redrive, asked RedriveRequest, id uuid.UUID, limits RedriveLimits, now time.Time) (Redrive, error) {
	r.ID, r.Version, r.CreatedAt, r.UpdatedAt = id, 1, now, now
	r.State = RedrivePending
	if r.Approval {
		r.State = AwaitingApproval
	}
	if r.Rate == 0 {
		r.Rate = limits.DefaultRate
	}
	if r.Concurrency == 0 {
		r.Concurrency = DefaultConcurrency
	}
	if r.Order == "" {
		r.Order = Oldest
	}
	if asked.All && r.Filter == nil && r.IDs == nil {
		r.Filter = &Filter{}
	}
	var wrong mistakes
	wrong.selection(&r, asked.All)
	wrong.pace(r.Rate, r.Concurrency, limits)
	wrong.stopOn(r.StopOn)
	wrong.reason(&r, asked.Unexplained)
	if r.Max < 0 {
		wrong.Add("/max_messages", "too_small", "must be at least 1")
	}
	if r.HaltsAbove != nil && *r.HaltsAbove < 0 {
		wrong.Add("/expected", "too_small", "must be at least 0")
	}
	if r.IncludeLater && r.IDs != nil {
		wrong.Add("/include_later", "excluded", "cannot be combined with ids, which select fixed letters")
	}
	if r.ScheduledFor != nil && (r.ScheduledFor.Year() < 1970 || r.ScheduledFor.After(now.Add(maxAhead))) {
		wrong.Add("/scheduled_for", "invalid", "must be at most a year ahead")
	}
	if r.Action == BulkRetry {
		wrong.retry(&r)
	} else {
		wrong.onlyForRetries(&r)
	}
	return r, wrong.fault()
}

// NeedsAdmin reports whether a redrive requires an administrator. Operators may change up to limit
// letters, but may not delete or requeue them.
func (r *Redrive) NeedsAdmin(limit int64) bool {
	bound := r.Max
	if n := int64(len(r.IDs)); n > 0 && (bound == 0 || n < bound) {
		bound = n
	}
	return r.Action == BulkDelete || r.Action == BulkRequeue || bound == 0 || bound > limit
}

// RedriveEdit changes a redrive that is not over. Nil members change nothing.
type RedriveEdit struct {
	Rate        *float64
	Concurrency *int
	StopOn      *StopOn
}

// Edited applies an edit. Faults: Conflict if the redrive is over; Invalid.
func (r Redrive) Edited(e RedriveEdit, limits RedriveLimits, now time.Time) (Redrive, error) {
	if r.State.Terminal() {
		return r, fault.New(fault.Conflict, CodeRedriveConflict, "the redrive is %s and can no longer be changed", r.State).Allowing(r.Actions())
	}
	if e.Rate != nil {
		r.Rate = *e.Rate
	}
	if e.Concurrency != nil {
		r.Concurrency = *e.Concurrency
	}
	if e.StopOn != nil {
		r.StopOn = *e.StopOn
	}
	var wrong mistakes
	wrong.pace(r.Rate, r.Concurrency, limits)
	wrong.stopOn(r.StopOn)
	r.Version++
	r.UpdatedAt = now
	return r, wrong.fault()
}

// Resumed resumes a paused or halted redrive. stop is its new stop condition, unless nil. Faults:
// Conflict; Invalid.
func (r Redrive) Resumed(stop *StopOn, actor string, now time.Time) (Redrive, error) {
	r, err := r.Moved(ResumeRedrive, actor, now)
	if err != nil || stop == nil {
		return r, err
	}
	r.StopOn = *stop
	var wrong mistakes
	wrong.stopOn(r.StopOn)
	return r, wrong.fault()
}

// Empty reports whether a filter matches every letter because no field restricts it (trap X31).
func (f *Filter) Empty() bool {
	bare := *f
	if bare.Topic == "*" {
		bare.Topic = ""
	}
	if !strings.ContainsFunc(bare.ErrorContains, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
		bare.ErrorContains = ""
	}
	if n := bare.RetryCountMin; n != nil && *n <= 0 {
		bare.RetryCountMin = nil
	}
	v := reflect.ValueOf(&bare).Elem()
	for i := range v.NumField() {
		if at := v.Field(i); (at.Kind() == reflect.Slice && at.Type() != reflect.TypeFor[[]byte]() ||
			at.Kind() == reflect.Map) && at.Len() == 0 {
			at.SetZero()
		}
	}
	return v.IsZero()
}

// Exact reports whether a filter names exactly one topic.
func (f *Filter) Exact() bool { return f.Topic != "" && !strings.HasSuffix(f.Topic, "*") }

// actionTriggers contains the triggers of each action; BulkDelete has none. Only a forced retry
// uses ForcedClaim.
var actionTriggers = map[RedriveAction][]Trigger{
	BulkRetry: {Claimed, ForcedClaim}, BulkDiscard: {Discard}, BulkResolve: {Resolve}, BulkRequeue: {Requeue},
}

// workable lists the statuses of letters to which an action applies.
func (a RedriveAction) workable(force bool) []Status {
	switch on := actionTriggers[a]; {
	case a == BulkRetry && !force:
		return From(Claimed)
	case on != nil:
		return From(on...)
	}
	return slices.DeleteFunc(slices.Clone(Statuses),
		func(s Status) bool { return (&Letter{Status: s}).Deletable() != nil })
}

// fault returns nil if there are no mistakes.
func (w mistakes) fault() error {
	if len(w.Mistakes) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, CodeInvalid, "%s %s", w.Mistakes[0].Pointer, w.Mistakes[0].Message).With(w.Mistakes...)
}

// selection validates and completes the selection of letters.
func (w *mistakes) selection(r *Redrive, all bool) {
	switch {
	case r.IDs != nil && (r.Filter != nil || all):
		w.Add("/ids", "excluded", "cannot be combined with filter or all")
	case r.IDs != nil:
		w.ids(r)
	case r.Filter == nil:
		w.Add("/ids", "required", "is required unless filter or all is set")
	case r.Filter.Empty() && !all:
		w.Add("/filter", "empty", "selects every letter; set all: true if that is intended")
	case all && !r.Filter.Empty():
		w.Add("/all", "excluded", "cannot be combined with a filter that restricts the selection")
	default:
		f := *r.Filter
		can := r.Action.workable(r.Force)
		if f.Statuses == nil {
			f.Statuses = can
		} else if !slices.ContainsFunc(f.Statuses, func(s Status) bool { return slices.Contains(can, s) }) {
			w.Add("/filter/status", "impossible", "none of these statuses allows %s%s", r.Action, withoutForce(r))
		}
		r.Filter = &f
	}
}

func withoutForce(r *Redrive) string {
	if r.Action == BulkRetry && !r.Force {
		return " without force"
	}
	return ""
}

func (w *mistakes) ids(r *Redrive) {
	if n := len(r.IDs); n == 0 || n > MaxSelected {
		w.Add("/ids", "count", "must list 1 to %d letters", MaxSelected)
	}
	seen := make(map[uuid.UUID]bool, len(r.IDs))
	var once []uuid.UUID
	for _, id := range r.IDs {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	r.IDs = once
}

func (w *mistakes) pace(rate float64, concurrency int, limits RedriveLimits) {
	if !(rate >= MinRate && rate <= limits.MaxRate) {
		w.Add("/rate_per_second", "out_of_range", "must be from %g to %g", MinRate, limits.MaxRate)
	}
	if concurrency < 1 || concurrency > MaxConcurrency {
		w.Add("/concurrency", "out_of_range", "must be from 1 to %d", MaxConcurrency)
	}
}

func (w *mistakes) stopOn(s StopOn) {
	if s.Failures < 0 {
		w.Add("/stop_on/failures", "too_small", "must be at least 1")
	}
	if !(s.FailureRatio >= 0 && s.FailureRatio <= 1) {
		w.Add("/stop_on/failure_ratio", "out_of_range", "must be from 0 to 1")
	}
}

func (w *mistakes) reason(r *Redrive, unexplained bool) {
	switch {
	case strings.TrimSpace(r.Reason) == "" && !unexplained:
		w.Add("/reason", "required", "is required unless dry_run is true: the audit trail records it")
	case utf8.RuneCountInString(r.Reason) > MaxReason || !storable(r.Reason):
		w.Add("/reason", "too_long", "must be UTF-8 text without NUL, of at most %d characters", MaxReason)
	}
}

// retry checks the fields that only a retrying redrive may have.
func (w *mistakes) retry(r *Redrive) {
	if r.Order != Oldest && r.Order != PerKey {
		w.Add("/order", "enum", "must be %s or %s", Oldest, PerKey)
	}
	if c := r.Canary; c != nil {
		if c.Count < 1 {
			w.Add("/canary/count", "too_small", "must be at least 1")
		}
		if c.WatchSeconds < 0 || c.WatchSeconds > maxWatchSeconds {
			w.Add("/canary/watch_seconds", "out_of_range", "must be from 0 to %d", maxWatchSeconds)
		}
		if !(c.MaxBounceRatio >= 0 && c.MaxBounceRatio <= 1) {
			w.Add("/canary/max_bounce_ratio", "out_of_range", "must be from 0 to 1")
		}
	}
	if r.Target != nil {
		w.Mistakes = append(w.Mistakes, TargetMistakes("/target", *r.Target)...)
	}
	if r.Transform != nil {
		w.Within("/transform", CheckPatch(r.Transform))
	}
}

func (w *mistakes) onlyForRetries(r *Redrive) {
	for pointer, given := range map[string]bool{
		"/target": r.Target != nil, "/transform": r.Transform != nil, "/canary": r.Canary != nil, "/order": r.Order != Oldest,
		"/force": r.Force,
	} {
		if given {
			w.Add(pointer, "excluded", "is allowed only for %s", BulkRetry)
		}
	}
	slices.SortStableFunc(w.Mistakes, func(a, b fault.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
}

// TargetMistakes returns what is wrong with the target of a retry; only records and HTTP requests
// can be sent to a different target. It does not check the policy.
func TargetMistakes(pointer string, t Target) []fault.Field {
	var w fault.Mistakes
	switch t.Kind {
	case ToKafka:
		if t.Topic != "" && !CanBeTopic(t.Topic) {
			w.Add(pointer+"/topic", "not_a_topic", "must be %s", TopicForm)
		}
		if t.Partition != nil && *t.Partition < 0 {
			w.Add(pointer+"/partition", "too_small", "must be at least 0")
		}
		if t.URL != "" || t.Method != "" {
			w.Add(pointer+"/url", "excluded", "is allowed only with kind %s", ToHTTP)
		}
	case ToHTTP:
		if u, err := url.Parse(t.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
			u.User != nil || len(t.URL) > maxURL {
			w.Add(pointer+"/url", "invalid", "must be an absolute http or https URL without credentials, of at most %d bytes", maxURL)
		}
		if !slices.Contains([]string{"", "POST", "PUT", "PATCH", "DELETE"}, t.Method) {
			w.Add(pointer+"/method", "enum", "must be POST, PUT, PATCH or DELETE")
		}
		if t.Topic != "" || t.Partition != nil {
			w.Add(pointer+"/topic", "excluded", "is allowed only with kind %s", ToKafka)
		}
	default:
		w.Add(pointer+"/kind", "enum", "must be %s or %s", ToKafka, ToHTTP)
	}
	return w
}

const maxURL = 2048
