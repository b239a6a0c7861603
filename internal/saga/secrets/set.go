package secrets

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/secret/keeper"
)

// Set contains the secrets of one participant.
type Set struct {
	binding registry.Binding
	values  Values
	first   int // the index in values at which the secrets of the set start
	hider   atomic.Pointer[Hider]
}

// Values holds the values of all secrets, in the order of the configuration.
type Values interface {
	Value(i int) (string, error)
	Seen(i int) []string
	Version() int64
	State(i int) keeper.State
}

// Value returns a secret for a call to url. The error gives the reason why it is not sent there.
func (s *Set) Value(name, url string) (string, error) {
	if why := s.binding.Refusal(s.binding.Participant, name, url); why != "" {
		return "", fmt.Errorf("%s", why)
	}
	value, err := s.values.Value(s.first + slices.Index(s.binding.Secrets, name))
	if err != nil {
		return "", fmt.Errorf("secret %q of participant %q %w", name, s.binding.Participant, err)
	}
	return value, nil
}

// Hider returns the Hider for answers that contain secrets of the set. It hides their current and
// previous values.
func (s *Set) Hider() *Hider {
	version := s.values.Version()
	if h := s.hider.Load(); h != nil && h.version == version {
		return h
	}
	values := map[string][]string{}
	for i, name := range s.binding.Secrets {
		values[name] = s.values.Seen(s.first + i)
	}
	h := newHider(version, values)
	s.hider.Store(h)
	return h
}
