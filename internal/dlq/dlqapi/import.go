package dlqapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
)

const (
	importBatch  = 100     // maximum number of letters stored at once
	importBytes  = 8 << 20 // a batch is also stored once its lines have this many bytes
	importErrors = 100     // maximum number of errors reported
	importBuffer = 64 << 10
	// importLine is the maximum length of a line in bytes. It fits a letter with a payload of
	// dlq.MaxPayload and the same amount of headers, key and stack, all in base64.
	importLine = 2 * (dlq.MaxPayload*4/3 + 1<<20)
)

// recordImport records the start of an import before the first letter is stored. The actions of the
// batches then name their letters.
func (s *Handlers) recordImport(ctx context.Context) error {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	asked := s.Did(ctx, s.Now(), operator.DeadLetter, "*", "import", "", nil)
	asked.Result = operator.Asked
	return s.Actions.Record(ctx, asked)
}

// ImportDeadLetters stores the lines of an export as they arrive. Each line succeeds or fails
// independently.
func (s *Handlers) ImportDeadLetters(ctx context.Context,
	req api.ImportDeadLettersRequestObject) (api.Response, error) {
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	in := importing{s: s, tenant: tenant, policies: s.policies(tenant), moment: s.moment()}
	in.out.Errors, in.out.Known = []api.DeadLetterImportError{}, []api.DeadLetterImportDuplicate{}
	if err := s.recordImport(ctx); err != nil {
		return nil, err
	}
	over := time.Now().Add(s.Limits.StreamAge)
	lines := bufio.NewReaderSize(req.Body, importBuffer)
	for line, end := 1, false; !end; line++ {
		text, fits, err := nextLine(lines, importLine)
		if end = errors.Is(err, io.EOF); err != nil && !end {
			return nil, in.cutShort(ctx, line, fault.New(fault.Malformed, httpkit.CodeUnreadable, "the body ended before it was complete: send it again").Because(err))
		}
		switch {
		case !fits:
			in.refuse(line, fault.New(fault.TooLarge, fault.CodeTooLarge, "the line has more than %d bytes and is thus longer than any exported dead letter", importLine))
		case len(text) == 0 || isEnd(text):
		default:
			if err := in.take(ctx, line, text); err != nil {
				return nil, err
			}
		}
		if !end && s.over(over) {
			return nil, in.cutShort(ctx, line, fault.New(fault.Unavailable, fault.CodeUnavailable, "the server is stopping or the import took too long: import the same lines again"))
		}
	}
	if err := in.store(ctx); err != nil {
		return nil, err
	}
	if in.out.Failed > 0 {
		return nil, &letterFault{imported: &in.out, error: fault.New(fault.Invalid, dlq.CodeImport,
			"%s could not be imported; %d imported, %d already existed", numbered(in.out.Failed, "line"), in.out.Imported, in.out.Duplicates)}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: in.out}, nil
}

// numbered returns n with a noun in the singular or plural.
func numbered[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// cutShort stores the letters read so far and reports the first line that was not read.
func (in *importing) cutShort(ctx context.Context, line int, why *fault.Error) error {
	if err := in.store(ctx); err != nil {
		return err
	}
	return fault.New(why.Kind, why.Code, "%s (at line %d; %s imported, %d already existed)",
		why.Detail, line, numbered(in.out.Imported, "letter"), in.out.Duplicates).Because(why)
}

// over reports whether a stream must end.
func (s *Handlers) over(at time.Time) bool {
	select {
	case <-s.Stopping:
		return true
	default:
		return time.Now().After(at)
	}
}

// nextLine reads a line and trims white space. A line longer than most bytes is skipped and
// reported as not fitting. io.EOF is returned with the last line.
func nextLine(from *bufio.Reader, most int) (line []byte, fits bool, err error) {
	fits = true
	for {
		part, err := from.ReadSlice('\n')
		if fits = fits && len(line)+len(part) <= most; fits {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), fits, err
		}
	}
}

// isEnd reports whether a line is the last one of an export.
func isEnd(line []byte) bool {
	var last struct {
		End *bool      `json:"end"`
		ID  *uuid.UUID `json:"id"`
	}
	return bytes.HasPrefix(line, []byte(`{"end":`)) && json.Unmarshal(line, &last) == nil &&
		last.End != nil && last.ID == nil
}

// importing is an import in progress.
type importing struct {
	s        *Handlers
	tenant   uuid.UUID
	policies func(context.Context, string) (*dlq.Policy, error)
	moment   dlq.Moment
	batch    []dlq.Letter
	lines    []int // line number of each letter in the batch
	bytes    int   // total size of those lines
	out      api.DeadLetterImportResult
}

// take reads a line and stores the batch when it is full. It returns an error only if storing fails
// because of an outage.
func (in *importing) take(ctx context.Context, line int, text []byte) error {
	l, texts, err := in.letter(ctx, text)
	switch f := fault.As(err); {
	case f != nil:
		in.refuse(line, f)
		return nil
	case err != nil:
		return err
	}
	if adjusted := httpkit.Merged(nil, texts); adjusted != nil && len(in.out.Adjusted) < importErrors {
		in.out.Adjusted = append(in.out.Adjusted, api.DeadLetterImportAdjusted{Line: line, Members: adjusted})
	}
	in.batch, in.lines, in.bytes = append(in.batch, l), append(in.lines, line), in.bytes+len(text)
	if len(in.batch) < importBatch && in.bytes < importBytes {
		return nil
	}
	return in.store(ctx)
}

// letter parses a line; texts contains pointers to the texts that were cleaned or cut.
func (in *importing) letter(ctx context.Context, text []byte) (l dlq.Letter, texts []string, err error) {
	r, err := readRecord(in.s.LetterSchema, text, in.s.Limits.MaxJSONDepth)
	if err != nil {
		return l, nil, err
	}
	p, err := in.policies(ctx, r.OriginalTopic)
	if err != nil {
		return l, nil, err
	}
	l, err = r.letter(in.tenant, p, in.moment)
	if err == nil && l.Target.Kind == dlq.ToHTTP {
		if reason := in.s.CheckEndpoint(l.Target.URL); reason != "" {
			err = notAllowed("/target/url", reason)
		}
	}
	return l, r.texts.Changed, err
}

func (in *importing) refuse(line int, f *fault.Error) {
	in.out.Failed++
	if len(in.out.Errors) < importErrors {
		in.out.Errors = append(in.out.Errors, api.DeadLetterImportError{Line: line, Problem: *httpkit.ItemProblem(f)})
	}
}

// store pushes the batch. A letter whose id belongs to another tenant gets a different id, which is
// the same each time the letter is imported.
func (in *importing) store(ctx context.Context) error {
	ctx, cancel := in.s.Promised(httpkit.WithActor(ctx, nil))
	defer cancel()
	batch, lines := in.batch, in.lines
	in.batch, in.lines, in.bytes = nil, nil, 0
	for retried := false; len(batch) > 0; retried = true {
		pushed, err := in.s.Letters.Push(ctx, batch)
		if err != nil {
			return err
		}
		var taken []dlq.Letter
		var at []int
		for i := range pushed {
			switch p := &pushed[i]; {
			case fault.IsCode(p.Err, dlq.CodeConflict) && !retried:
				l := batch[i]
				own := uuid.NewSHA1(in.tenant, l.ID[:])
				if l.RootID == l.ID {
					l.RootID = own
				}
				l.ID = own
				taken, at = append(taken, l), append(at, lines[i])
			case p.Err != nil:
				f := fault.As(p.Err)
				if f == nil {
					return p.Err
				}
				in.refuse(lines[i], f)
			case p.Duplicate:
				in.out.Duplicates++
				if p.Letter.ID != batch[i].ID && len(in.out.Known) < importErrors {
					in.out.Known = append(in.out.Known, api.DeadLetterImportDuplicate{Line: lines[i], ID: p.Letter.ID})
				}
			default:
				in.out.Imported++
			}
		}
		batch, lines = taken, at
	}
	return nil
}
