package certification

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

// Told is what a participant that has answered "later" reports.
type Told struct {
	Result reported.Result `json:"result"`
	Output json.RawMessage `json:"output"`
	Wrong  string          `json:"-"` // not "": the report, because Skald would not take it
}

// ReadTold reads a report.
func ReadTold(body []byte) (t Told) {
	if json.Unmarshal(body, &t) != nil || !slices.Contains(reported.Results, t.Result) {
		return Told{Wrong: short(string(body))}
	}
	return t
}

// Callback is the call of an examination that a callback URL of a server is for.
type Callback struct {
	Tenant, ID uuid.UUID
	Token      uuid.UUID // of the node that examines: reports that an earlier node asked for do not count
	Call       string    // its name
	Undo       bool      // of the compensation
	Again      bool      // the first report is not taken
}

// Bytes returns the callback as tokens have it.
func (c Callback) Bytes() []byte {
	b := append(append(append(make([]byte, 0, 96), c.Tenant[:]...), c.ID[:]...), c.Token[:]...)
	flags := byte(0)
	if c.Undo {
		flags |= 1
	}
	if c.Again {
		flags |= 2
	}
	return append(append(b, flags), c.Call...)
}

// CallbackOf returns the callback that Bytes has written; ok is false if they are of none.
func CallbackOf(b []byte) (c Callback, ok bool) {
	if len(b) <= 3*len(c.ID)+1 || b[3*len(c.ID)] > 3 {
		return c, false
	}
	for _, id := range []*uuid.UUID{&c.Tenant, &c.ID, &c.Token} {
		b = b[copy(id[:], b):]
	}
	c.Undo, c.Again, c.Call = b[0]&1 != 0, b[0]&2 != 0, string(b[1:])
	return c, true
}

// Mail is what was reported in an examination, by call. It is kept until the node that examines has ended.
type Mail map[string]Letter

// Letter is what was reported of a call.
type Letter struct {
	Asked  bool            `json:"asked,omitempty"` // to send the report again
	Report json.RawMessage `json:"report,omitempty"`
}

// Put adds a report. first is the one that counts, nil if it must come again; changed: the mail is to be stored.
func (m Mail) Put(c Callback, report json.RawMessage) (first json.RawMessage, changed bool) {
	known := m[c.Call]
	switch {
	case known.Report != nil:
		return known.Report, false
	case c.Again && !known.Asked:
		m[c.Call] = Letter{Asked: true}
		return nil, true
	}
	m[c.Call] = Letter{Report: bytes.Clone(report)}
	return m[c.Call].Report, true
}

// Inbox keeps what examined participants report to any node for the node that examines.
type Inbox interface {
	// Report adds a report and returns the first that counts of its call, nil if it must come again; repeated: another
	// one came before. report nil: it is a heartbeat, which is not kept. Fault: NotFound, unless the node of the
	// callback still examines.
	Report(ctx context.Context, c Callback, report json.RawMessage) (first json.RawMessage, repeated bool, err error)
	// Reports returns what has come. Fault: NotFound, as with Report.
	Reports(ctx context.Context, c *Certification, token uuid.UUID) (Mail, error)
}
