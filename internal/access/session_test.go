package access_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

func TestOnlyTokensOfSessionsAreTakenForThem(t *testing.T) {
	token := string(access.NewSessionToken([32]byte{1, 2, 3}))
	if _, ok := access.ParseSessionToken(token); !ok {
		t.Errorf("%q is refused", token)
	}
	for _, s := range []string{
		"", "skald_session_", token[:len(token)-1], token + "A", token + "\n", strings.ToUpper(token),
		strings.TrimPrefix(token, "skald_"), token[:len(token)-1] + "-x", " " + token,
	} {
		if _, ok := access.ParseSessionToken(s); ok {
			t.Errorf("%q is taken for a session", s)
		}
	}
	if _, ok := access.ParseToken(token); ok {
		t.Error("a session is taken for an API key")
	}
}

func TestASessionEndsAfterTwelveHoursOrAnHourWithoutUse(t *testing.T) {
	now := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	token := access.NewSessionToken([32]byte{7})
	who := principal.Principal{
		Subject: "jwt:alice", Role: principal.Operator, Tenant: tenant.Tenant{ID: uuid.New()},
	}
	s, err := access.OpenSession(token, who, "10.0.0.1", uuid.New(), now)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Ends(); !got.Equal(now.Add(time.Hour)) {
		t.Errorf("unused, it ends at %v", got)
	}
	s.LastUsedAt = now.Add(11*time.Hour + 30*time.Minute)
	if got := s.Ends(); !got.Equal(now.Add(12 * time.Hour)) {
		t.Errorf("used all day, it ends at %v", got)
	}
	if p := s.Principal(); p.Subject != who.Subject || p.Role != who.Role || p.Tenant != who.Tenant || p.AnyTenant ||
		p.SessionID != s.ID || p.KeyID != uuid.Nil {
		t.Errorf("the caller is %+v", p)
	}
	if strings.Contains(string(s.Hash), string(token)) {
		t.Error("the token is stored")
	}
	// A session opened with a session would never end.
	if _, err := access.OpenSession(token, s.Principal(), "", uuid.New(), now); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a session made with a session: %v", err)
	}
}
