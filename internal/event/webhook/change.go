package webhook

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/audit/eventtype"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/saga/workflow"
)

// NotFound returns the fault for a subscription that the tenant does not have.
func NotFound(id uuid.UUID) *fault.Error {
	return fault.New(fault.NotFound, CodeNotFound, "there is no webhook %s", id)
}

// DeliveryNotFound returns the fault for a delivery that the subscription does not have.
func DeliveryNotFound(id uuid.UUID) *fault.Error {
	return fault.New(fault.NotFound, CodeDeliveryNotFound, "this webhook has no delivery %s", id)
}

// Stale returns the fault for a precondition that no longer holds.
func Stale(id uuid.UUID, present int64) *fault.Error {
	return fault.New(fault.Precondition, CodeStale, "webhook %s is at version %d", id, present)
}

// Settings are the fields that a client may set. A nil field is left unchanged.
type Settings struct {
	URL           *string
	Description   *string
	EventTypes    *[]string
	WorkflowNames *[]string
	Enabled       *bool
}

// New returns a new subscription, which is enabled unless the settings say otherwise. If there are
// mistakes, it returns a fault of kind Invalid that lists all of them.
func New(tenant, id uuid.UUID, c Settings, key []byte, by string, now time.Time) (Subscription, error) {
	s := Subscription{
		TenantID: tenant, ID: id, Enabled: true, Secrets: []Secret{{Key: key, CreatedAt: now}},
		CreatedBy: by, CreatedAt: now, UpdatedAt: now, Version: 1,
	}
	if c.URL == nil {
		c.URL = new(string)
	}
	return s, s.set(c, now)
}

// With returns the subscription changed by settings, in its next version, or a fault of kind
// Invalid. Enabling the subscription resets past failures.
func (s Subscription) With(c Settings, now time.Time) (Subscription, error) {
	s.Version, s.UpdatedAt = s.Version+1, now
	return s, s.set(c, now)
}

func (s *Subscription) set(c Settings, now time.Time) error {
	var wrong fault.Mistakes
	check := func(pointer, mistake string) {
		if mistake != "" {
			wrong.Add(pointer, CodeInvalid, "%s", mistake)
		}
	}
	if c.URL != nil {
		s.URL = *c.URL
		check("/url", mistakeInURL(s.URL))
	}
	if c.Description != nil {
		s.Description = *c.Description
		if utf8.RuneCountInString(s.Description) > MaxDescription {
			check("/description", "must have at most "+strconv.Itoa(MaxDescription)+" characters")
		}
	}
	if c.EventTypes != nil {
		s.EventTypes = sorted(*c.EventTypes)
		for i, p := range *c.EventTypes {
			check("/event_types/"+strconv.Itoa(i), mistakeInPattern(p))
		}
	}
	if c.WorkflowNames != nil {
		s.WorkflowNames = sorted(*c.WorkflowNames)
		for i, name := range *c.WorkflowNames {
			if !workflow.ValidName(name) {
				check("/workflow_names/"+strconv.Itoa(i), "is not a valid workflow name")
			}
		}
	}
	if len(s.EventTypes) > MaxPatterns {
		check("/event_types", "must have at most "+strconv.Itoa(MaxPatterns)+" entries")
	}
	if len(s.WorkflowNames) > MaxPatterns {
		check("/workflow_names", "must have at most "+strconv.Itoa(MaxPatterns)+" entries")
	}
	if wrong != nil {
		return fault.New(fault.Invalid, CodeInvalid, "%s: %s", wrong[0].Pointer, wrong[0].Message).With(wrong...)
	}
	if c.Enabled != nil && *c.Enabled != s.Enabled {
		if *c.Enabled {
			s.Enabled, s.DisabledReason, s.DisabledAt, s.Health = true, "", nil, Health{}
		} else {
			s.Enabled, s.DisabledReason, s.DisabledAt = false, "disabled by request", &now
		}
	}
	return nil
}

// disable disables the subscription, in its next version.
func (s *Subscription) disable(reason string, now time.Time) {
	s.Enabled, s.DisabledReason, s.DisabledAt = false, reason, &now
	s.Version, s.UpdatedAt = s.Version+1, now
}

// Rotated returns the subscription with a new secret, in its next version. The current secret also
// signs for RotationOverlap, so that the receiver can switch. A secret from an earlier rotation is
// dropped.
func (s Subscription) Rotated(key []byte, now time.Time) Subscription {
	until := now.Add(RotationOverlap)
	former := s.Secrets[:min(len(s.Secrets), 1)] // empty if the secrets were lost
	s.Secrets = []Secret{{Key: key, CreatedAt: now}}
	for _, secret := range former {
		secret.ExpiresAt = &until
		s.Secrets = append(s.Secrets, secret)
	}
	s.Version, s.UpdatedAt = s.Version+1, now
	return s
}

// sorted returns a sorted copy without duplicates, because neither the order nor duplicates have a
// meaning.
func sorted(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

func mistakeInPattern(p string) string {
	if p != "*" && strings.Contains(strings.TrimSuffix(p, ".*"), "*") {
		return "may contain * only at the end, after a dot, as in saga.*"
	}
	for _, t := range eventtype.All {
		if fits(p, string(t)) {
			return ""
		}
	}
	return "matches no event type"
}

// numericEnd matches hosts that resolvers interpret as IPv4 addresses in another notation, such as
// 127.1 and 0x7f000001.
var numericEnd = regexp.MustCompile(`(^|\.)([0-9]+|0[xX][0-9a-fA-F]*)\.?$`)

var dotted = regexp.MustCompile(`^(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}$`)

// mistakeInURL returns the error in the syntax of an endpoint's URL, or "" if there is none.
func mistakeInURL(raw string) string {
	if len(raw) > MaxURL {
		return "must have at most " + strconv.Itoa(MaxURL) + " bytes"
	}
	if mistake := workflow.MistakeInURL(raw); mistake != "" {
		return mistake
	}
	u, err := url.Parse(raw)
	if err == nil && numericEnd.MatchString(u.Hostname()) && !strings.Contains(u.Hostname(), ":") &&
		!dotted.MatchString(u.Hostname()) {
		return "has a host that looks like an IPv4 address but is not one"
	}
	return ""
}
