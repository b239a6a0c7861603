package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/skald-saga/skald/internal/principal"
)

// These are the limits of tickets.
const (
	ticketLife = 10 * time.Second
	maxTickets = 1000
)

var errNoTicket = errors.New("no such ticket, or it has been used")

// ticket issues a ticket for who.
func (c *Checker) ticket(who principal.Principal) (string, error) {
	var chance [32]byte
	if _, err := rand.Read(chance[:]); err != nil {
		return "", err
	}
	text := ticketBegin + base64.RawURLEncoding.EncodeToString(chance[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tickets) >= maxTickets { // with this many unused tickets, their requests have failed
		clear(c.tickets)
	}
	c.tickets[sha256.Sum256([]byte(text))] = found{who: who, until: time.Now().Add(ticketLife)}
	return text, nil
}

// takeTicket returns the owner of a ticket. It succeeds only once per ticket.
func (c *Checker) takeTicket(id digest) (principal.Principal, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.tickets[id]
	delete(c.tickets, id)
	if !ok || time.Now().After(f.until) {
		return principal.Principal{}, refuse(errNoTicket)
	}
	return f.who, nil
}
