package joblog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/jobrun"
	"github.com/skald-saga/skald/internal/jobrun/logstore"
	"github.com/skald-saga/skald/internal/secret/envelope"
)

// page is the number of chunks read at once: up to 4 MB.
const page = 16

// line is a line of a stored log: a jobrun.LogLine, or a line whose content is sealed as in the
// database.
type line struct {
	jobrun.LogLine
	Sealed []byte `json:"chunk_sealed,omitempty"`
}

// fieldChunk names the sealed content of a chunk in the log store.
func fieldChunk(at jobrun.LogPosition) envelope.Field {
	return envelope.Field{Name: "jobs.log.stored", Attempt: at.Attempt, Step: at.Seq}
}

// source reads the log of a run from the database as the lines to store.
type source struct {
	ctx    context.Context //nolint:containedctx // it is an io.Reader for one call
	from   Chunks
	run    *jobrun.Run
	sealer envelope.Sealer
	next   jobrun.LogPosition
	out    bytes.Buffer
	ended  bool
	chunks int
	bytes  int64 // size of their content
}

func newSource(ctx context.Context, from Chunks, keys *envelope.Keyring, run *jobrun.Run) *source {
	return &source{ctx: ctx, from: from, run: run, sealer: keys.SealerFor(run.TenantID, run.ID)}
}

func (s *source) Read(p []byte) (int, error) {
	for s.out.Len() == 0 {
		if s.ended && s.bytes != s.run.LogBytes {
			return 0, errChanged // or another node has moved it; in both cases there is nothing to store
		}
		if s.ended {
			return 0, io.EOF
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	return s.out.Read(p)
}

func (s *source) fill() error {
	chunks, err := s.from.Logs(s.ctx, s.run.TenantID, s.run.ID, s.next, page)
	if err != nil {
		return err
	}
	s.ended = len(chunks) < page
	for i := range chunks {
		c := &chunks[i]
		text, err := s.line(c)
		if err != nil {
			return err
		}
		s.out.Write(append(text, '\n'))
		s.chunks++
		s.bytes += int64(len(c.Body))
		s.next = jobrun.LogPosition{Attempt: c.Attempt, Seq: c.Seq + 1}
	}
	return nil
}

func (s *source) line(c *jobrun.LogChunk) ([]byte, error) {
	l := line{LogLine: jobrun.LineOf(c)}
	if s.sealer.Seals() {
		sealed, err := s.sealer.SealBytes(fieldChunk(c.LogPosition), append([]byte{}, c.Body...))
		if err != nil {
			return nil, fmt.Errorf("seal a log: %w", err)
		}
		l.Chunk, l.Bytes, l.Sealed = nil, nil, sealed
	}
	return json.Marshal(l)
}

// Open reads the stored log of a run, as NDJSON of jobrun.LogLine, in the order of attempts and
// numbers. A damaged log ends with an error instead of io.EOF (logstore.ErrCorrupt). A reference
// that belongs to another tenant or run is refused, wherever it comes from (F55). Fault: NotFound
// if the log no longer exists.
func Open(ctx context.Context, store *logstore.Store, keys *envelope.Keyring, run *jobrun.Run) (io.ReadCloser, error) {
	name, err := logstore.NameOf(run.LogRef)
	if err == nil && (name.Tenant != run.TenantID || name.Run != run.ID) {
		err = logstore.ErrRef
	}
	if err != nil {
		return nil, fmt.Errorf("open the log of job run %s: %w", run.ID, err)
	}
	stored, err := store.Get(ctx, run.LogRef, 0)
	if err != nil {
		return nil, err
	}
	return &opened{stored: stored, lines: bufio.NewReader(stored), sealer: keys.SealerFor(run.TenantID, run.ID)}, nil
}

// opened returns the lines with their sealed content decrypted.
type opened struct {
	stored io.Closer
	lines  *bufio.Reader
	sealer envelope.Sealer
	out    bytes.Buffer
}

func (o *opened) Read(p []byte) (int, error) {
	for o.out.Len() == 0 {
		text, err := o.lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(text) > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		if err := o.line(text); err != nil {
			return 0, err
		}
	}
	return o.out.Read(p)
}

var sealedMark = []byte(`"chunk_sealed":`)

func (o *opened) line(text []byte) error {
	// Only our own sealed lines contain these bytes outside of a string, because quotes within
	// strings are escaped. All other lines stay unchanged.
	if !bytes.Contains(text, sealedMark) {
		o.out.Write(text)
		return nil
	}
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("decode a line of a stored log: %w", err)
	}
	body, err := o.sealer.OpenBytes(fieldChunk(jobrun.LogPosition{Attempt: l.Attempt, Seq: l.Seq}), l.Sealed)
	if err != nil {
		return err
	}
	plain := jobrun.LineOf(&jobrun.LogChunk{LogPosition: jobrun.LogPosition{Attempt: l.Attempt, Seq: l.Seq}, At: l.At,
		Stream: l.Stream, Body: body})
	text, err = json.Marshal(plain)
	o.out.Write(append(text, '\n'))
	return err
}

func (o *opened) Close() error { return o.stored.Close() }

// Chunks reads logs in the database; jobrun.Runs implements it.
type Chunks interface {
	Logs(ctx context.Context, tenant, id uuid.UUID, from jobrun.LogPosition, limit int) ([]jobrun.LogChunk, error)
}

var errChanged = errors.New("the log was changed or moved concurrently")
