package jobrun

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/jobrun/schedule"
	"github.com/skald-saga/skald/internal/strictjson"
)

// nameForm is the form of definition and queue names: safe in paths and file names, and without the
// * that filters use.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

// Check validates the name and spec of a definition; the caller has called Complete on
// the spec. It returns a fault of kind Invalid with a field for each mistake. The pointer of a
// field refers to the definition in the request.
func Check(name string, s *Spec) error {
	var w mistakes
	switch {
	case !nameForm.MatchString(name) || len(name) > MaxName:
		w.Add("/name", "pattern", "must be 1 to %d letters, digits, dots, dashes, underscores or colons, and begin with a letter or digit", MaxName)
	case uuid.Validate(name) == nil:
		w.Add("/name", "pattern", "must not be a UUID, because it could be mistaken for an id")
	}
	w.text("/description", s.Description, 0, MaxDescription)
	w.text("/command_name", s.CommandName, 1, MaxName)
	w.trigger(s)
	w.numbers(s)
	w.retries(s)
	w.placement(s)
	w.overlap(s)
	w.arguments(s)
	w.emit(s)
	return w.fault()
}

// CheckNew is Check for user-defined definitions, which must not use the names and queues of
// built-in ones.
func CheckNew(name string, s *Spec) error {
	err := Check(name, s)
	var w mistakes
	if f := fault.As(err); f != nil {
		w.Mistakes = f.Fields
	}
	if strings.HasPrefix(name, SystemPrefix) {
		w.Add("/name", "reserved", "must not begin with %s", SystemPrefix)
	}
	if s.Queue == SystemQueue {
		w.Add("/queue", "reserved", "is reserved for built-in definitions")
	}
	return w.fault()
}

// text checks the length of a text in characters.
func (w *mistakes) text(pointer, s string, least, most int) {
	switch n := utf8.RuneCountInString(s); {
	case n < least:
		w.Add(pointer, "required", "is required")
	case n > most:
		w.Add(pointer, "maxLength", "must have at most %d characters", most)
	case strings.ContainsRune(s, 0) || !utf8.ValidString(s):
		w.Add(pointer, "pattern", "contains a NUL character or is not UTF-8")
	}
}

func (w *mistakes) trigger(s *Spec) {
	if !slices.Contains(Types, s.Type) {
		w.Add("/type", "enum", "must be %s, %s or %s", OnTime, OnEvent, OnDemand)
	}
	switch {
	case s.Type == OnTime && s.Schedule == nil:
		w.Add("/schedule", "required", "is required for type %s", OnTime)
	case s.Type != OnTime && s.Schedule != nil:
		w.Add("/schedule", "excluded", "is allowed only for type %s", OnTime)
	case s.Schedule != nil:
		if _, err := CompileSchedule("/schedule", *s.Schedule); err != nil {
			w.Within("", err)
		}
	}
	switch {
	case s.Type == OnEvent && s.Event == nil:
		w.Add("/event", "required", "is required for type %s", OnEvent)
	case s.Type != OnEvent && s.Event != nil:
		w.Add("/event", "excluded", "is allowed only for type %s", OnEvent)
	case s.Event != nil:
		w.event(s.Event)
	}
}

// CompileSchedule compiles a schedule. Fault: Invalid (CodeInvalid), with pointers that begin with
// pointer.
func CompileSchedule(pointer string, s schedule.Spec) (*schedule.Schedule, error) {
	compiled, err := s.Compile()
	if fault.As(err) == nil {
		return compiled, err
	}
	var w mistakes
	w.Within(pointer, err)
	return nil, w.fault()
}

// selector checks an event type, or a prefix that ends with *.
func (w *mistakes) selector(pointer, s string) {
	w.text(pointer, s, 1, MaxWord)
	if i := strings.IndexByte(s, '*'); i >= 0 && i < len(s)-1 {
		w.Add(pointer, "pattern", "may contain only one *, and only at the end")
	}
}

func (w *mistakes) event(e *EventTrigger) {
	w.selector("/event/event_type", e.EventType)
	if !slices.Contains([]string{"", "event", "payload"}, e.Args) {
		w.Add("/event/args_from", "enum", "must be event or payload")
	}
	if len(e.Match) > MaxLabels {
		w.Add("/event/match", "maxProperties", "must have at most %d members", MaxLabels)
	}
	for path, value := range e.Match {
		at := "/event/match/" + strictjson.Token(path)
		w.text(at, path, 1, MaxWord)
		if len(value) == 0 || value[0] == '{' || value[0] == '[' {
			w.Add(at, "type", "must be a string, number, true, false or null")
		}
	}
}

func (w *mistakes) emit(s *Spec) {
	if len(s.Emit) > MaxEmitTopics {
		w.Add("/emit", "maxItems", "must have at most %d entries", MaxEmitTopics)
	}
	for i, e := range s.Emit {
		at := fmt.Sprintf("/emit/%d", i)
		w.selector(at+"/event_type", e.EventType)
		if !dlq.CanBeTopic(e.Topic) {
			w.Add(at+"/topic", "pattern", "is not a valid Kafka topic name: use %s", dlq.TopicForm)
		}
	}
}

func (w *mistakes) placement(s *Spec) {
	if s.Queue != "" && (!nameForm.MatchString(s.Queue) || len(s.Queue) > MaxQueueName) {
		w.Add("/queue", "pattern", "must be 1 to %d letters, digits, dots, dashes, underscores or colons, and begin with a letter or digit", MaxQueueName)
	}
	w.labels("/required_labels", s.Requires)
	w.labels("/labels", s.Labels)
}

func (w *mistakes) labels(pointer string, labels map[string]string) {
	if len(labels) > MaxLabels {
		w.Add(pointer, "maxProperties", "must have at most %d members", MaxLabels)
	}
	for name, value := range labels {
		at := pointer + "/" + strictjson.Token(name)
		if !nameForm.MatchString(name) || len(name) > MaxQueueName {
			w.Add(at, "pattern", "is not a valid label name: use 1 to %d letters, digits, dots, dashes, underscores or colons, and begin with a letter or digit", MaxQueueName)
		}
		w.text(at, value, 0, MaxWord)
	}
}

// CheckLabels validates labels and returns a fault of kind Invalid with pointers that begin with
// pointer.
func CheckLabels(pointer string, labels map[string]string) error {
	var w mistakes
	w.labels(pointer, labels)
	return w.fault()
}

func (w *mistakes) overlap(s *Spec) {
	if !slices.Contains(append(Policies, ""), s.Concurrency) {
		w.Add("/concurrency_policy", "enum", "must be one of %v", Policies)
	}
	w.text("/concurrency_key", s.ConcurrencyKey, 0, MaxWord)
	if s.ConcurrencyKey != "" && s.Concurrency == Allow {
		w.Add("/concurrency_key", "excluded", "is not allowed with concurrency_policy %s", Allow)
	}
}

func (w *mistakes) arguments(s *Spec) {
	if len(s.DefaultArgs) > MaxArgs {
		w.Add("/default_args", "too_large", "must have at most %d bytes", MaxArgs)
		return
	}
	schema, err := ParseSchema(s.ArgsSchema)
	if err != nil {
		w.Add("/args_schema", "schema", "%s", fault.As(err).Detail)
		return
	}
	// The default arguments must be valid for runs that get no others.
	if s.DefaultArgs != nil && s.CommandName != ShellCommand || s.Type == OnTime {
		w.Mistakes = append(w.Mistakes, schema.mistakes("/default_args", s.Data(nil)).Mistakes...)
	}
}

// Complete returns the spec with defaults for omitted fields. Fields whose default is a setting
// stay empty.
func (s Spec) Complete() Spec {
	s.Retry = s.Retry.Or(DefaultRetry)
	s.Retry.RetryOn = nil // workers report for each failure whether it may be retried
	if s.Queue == "" {
		s.Queue = DefaultQueue
	}
	if s.Concurrency == "" {
		s.Concurrency = Allow
	}
	if s.Type == OnTime {
		if s.Misfire == "" {
			s.Misfire = SkipLate
		}
		if s.CatchUpLimit == 0 {
			s.CatchUpLimit = DefaultCatchUp
		}
	}
	if isNull(s.DefaultArgs) {
		s.DefaultArgs = nil
	}
	if isNull(s.ArgsSchema) {
		s.ArgsSchema = nil
	}
	return s
}

// Rescheduled returns the definition with its slots counted from now on; earlier slots are dropped.
// It has no next slot if it has no schedule, is disabled, or is deleted. Its spec must have passed
// Check.
func (d Definition) Rescheduled(now time.Time) Definition {
	d.LastMaterializedAt, d.NextDueAt = now, nil
	if d.Spec.Schedule == nil || !d.Enabled || d.DeletedAt != nil {
		return d
	}
	if s, err := d.Spec.Schedule.Compile(); err == nil {
		d.NextDueAt = nextOf(s, now)
	}
	return d
}

func nextOf(s *schedule.Schedule, after time.Time) *time.Time {
	if t, ok := s.Next(after); ok {
		return &t.At
	}
	return nil
}
