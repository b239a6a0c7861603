package certification

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/saga/callback/reported"
)

// Told is the report of a participant that has answered "later".
type Told struct {
	Result reported.Result `json:"result"`
	Output json.RawMessage `json:"output"`
	Wrong  string          `json:"-"` // if not "", the report, which Skald would not accept
}

// ReadTold parses a report.
func ReadTold(body []byte) (t Told) {
	if json.Unmarshal(body, &t) != nil || !slices.Contains(reported.Results, t.Result) {
		return Told{Wrong: short(string(body))}
	}
	return t
}

// Callback identifies the call of a certification to which a server's callback URL belongs.
type Callback struct {
	Tenant, ID uuid.UUID
	Token      uuid.UUID // token of the node that runs the test: reports requested by an earlier node do not count
	Call       string    // name of the call
	Undo       bool      // the call is a compensation
	Again      bool      // the first report is rejected
}

// Bytes returns the callback in the form used in tokens.
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

// CallbackOf is the inverse of Bytes. ok is false if the bytes do not encode a callback.
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

// Mail contains the reports received in a certification, by call. It is kept until the node that
// runs the test is done.
type Mail map[string]Letter

// Letter is the report on one call.
type Letter struct {
	Asked  bool            `json:"asked,omitempty"` // whether the participant was asked to send the report again
	Report json.RawMessage `json:"report,omitempty"`
}

// Put adds a report. first is the report that counts, or nil if it must be sent again. changed
// means that the mail must be stored.
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

// Inbox stores the reports that participants under test send to any node, for the node that runs
// the test.
type Inbox interface {
	// Report adds a report and returns the first one that counts for its call, or nil if it must be
	// sent again. repeated means that another report came before. A nil report is a heartbeat,
	// which is not stored. Fault: NotFound, unless the callback's node is still running the test.
	Report(ctx context.Context, c Callback, report json.RawMessage) (first json.RawMessage, repeated bool, err error)
	// Reports returns the reports received so far. Fault: NotFound, as for Report.
	Reports(ctx context.Context, c *Certification, token uuid.UUID) (Mail, error)
}
