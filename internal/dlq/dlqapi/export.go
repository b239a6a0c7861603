package dlqapi

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/page"
)

// exportPage is the number of letters that an export reads at once; each letter may be several
// megabytes.
const exportPage = 10

// ExportDeadLetters checks the parameters and reads the first letters; the returned response writes
// them and the rest.
func (s *Handlers) ExportDeadLetters(ctx context.Context, in api.ExportDeadLettersRequestObject) (api.Response, error) {
	req := httpkit.RequestOf(ctx)
	f, err := letterFilter(ctx, in.Params)
	if err != nil {
		return nil, err
	}
	e := &export{s: s, ctx: ctx, tenant: req.Tenant.ID, list: req.List(), bare: req.Method == http.MethodHead, left: -1}
	e.query = dlq.Query{Filter: f, Oldest: true}
	if in.Params.Limit != nil {
		e.left = int(*in.Params.Limit)
	}
	if in.Params.Cursor != nil {
		after, err := s.Cursors.Open(e.list, *in.Params.Cursor)
		if err != nil {
			return nil, err
		}
		place, err := httpkit.ByTime.Place(after)
		if err != nil {
			return nil, err
		}
		e.query.After = &place
	}
	if err := e.read(); err != nil {
		return nil, err
	}
	return e, nil
}

// export is a stream of letters to one client.
type export struct {
	s      *Handlers
	ctx    context.Context //nolint:containedctx // the context of the request
	tenant uuid.UUID
	list   httpkit.ListID
	query  dlq.Query
	page   page.Of[dlq.Letter]
	left   int // maximum number of letters still to be sent; negative means no limit
	sent   int
	bare   bool // true for a HEAD request, which gets no body
}

// exportEnd is the last line of an export.
type exportEnd struct {
	End        bool   `json:"end"` // true if all letters have been sent
	Exported   int    `json:"exported"`
	NextCursor string `json:"next_cursor,omitempty"` // set unless End is true
}

func (e *export) read() (err error) {
	ctx, cancel := e.s.Bounded(e.ctx)
	defer cancel()
	if e.query.Limit = exportPage; e.left >= 0 {
		e.query.Limit = min(exportPage, e.left)
	}
	e.page, err = e.s.Letters.List(ctx, e.tenant, e.query)
	return err
}

// Write sends letters until there are no more, the server stops, the export times out or the
// database fails. In the last three cases, the last line contains the cursor from which to
// continue.
func (e *export) Write(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", httpkit.MediaNDJSON)
	h.Set("Content-Disposition", `attachment; filename="dead-letters.ndjson"`)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // otherwise, buffering proxies would hold back the whole response
	w.WriteHeader(http.StatusOK)
	if e.bare {
		return nil
	}
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the request has already been read
	over := time.NewTimer(e.s.Limits.StreamAge)
	defer over.Stop()
	for {
		lines, err := e.lines()
		if err != nil || !e.push(w, out, lines) {
			return nil
		}
		if !e.page.More || e.left == 0 {
			e.end(w, out, !e.page.More)
			return nil
		}
		select {
		case <-e.s.Stopping:
		case <-over.C:
		default:
			if err = e.read(); err == nil {
				continue
			}
			e.s.Log.WarnContext(e.ctx, "dead-letter export interrupted", slog.String("request_id", httpkit.RequestOf(e.ctx).ID), slog.Any("error", err))
		}
		e.end(w, out, false)
		return nil
	}
}

// lines returns the lines of the current page and advances to the next page.
func (e *export) lines() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for i := range e.page.Items {
		l := &e.page.Items[i]
		e.query.After = new(l.Place())
		if err := enc.Encode(recordOf(l, e.cursor())); err != nil {
			return nil, err
		}
		e.sent++
		e.left--
	}
	return buf.Bytes(), nil
}

// cursor returns the cursor after the last letter that was sent.
func (e *export) cursor() string {
	return e.s.Cursors.Seal(e.list, httpkit.ByTime.Keys(*e.query.After))
}

// push sends all of data. It returns false if the client has disconnected or is too slow.
func (e *export) push(w http.ResponseWriter, out *http.ResponseController, data []byte) bool {
	if out.SetWriteDeadline(time.Now().Add(max(e.s.Limits.StreamWrite, e.s.Limits.RequestTimeout))) != nil {
		return false
	}
	if _, err := w.Write(data); err != nil {
		return false
	}
	return out.Flush() == nil
}

func (e *export) end(w http.ResponseWriter, out *http.ResponseController, all bool) {
	last := exportEnd{End: all, Exported: e.sent}
	if !all && e.query.After != nil {
		last.NextCursor = e.cursor()
	}
	line, err := json.Marshal(last)
	if err == nil {
		e.push(w, out, append(line, '\n'))
	}
}
