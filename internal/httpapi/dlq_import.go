package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/dlq"
	"github.com/skald-saga/skald/internal/fault"
)

const (
	importBatch  = 100 // letters stored at once
	importErrors = 100 // that are told
)

// ImportDeadLetters stores the lines of an export, each on its own.
func (s *server) ImportDeadLetters(ctx context.Context, _ api.ImportDeadLettersRequestObject) (api.ImportDeadLettersResponseObject, error) {
	ctx, cancel := s.promised(ctx)
	defer cancel()
	req := requestOf(ctx)
	in := importing{s: s, tenant: req.tenant.ID, policies: s.policies(req.tenant.ID), moment: s.moment()}
	in.out.Errors = []api.DeadLetterImportError{}
	line := 0
	for text := range bytes.Lines(req.body) {
		line++
		if text = bytes.TrimSpace(text); len(text) == 0 || isEnd(text) {
			continue
		}
		if err := in.take(ctx, line, text); err != nil {
			return nil, err
		}
	}
	if err := in.store(ctx); err != nil {
		return nil, err
	}
	return answer{status: http.StatusOK, body: in.out}, nil
}

// isEnd tells the last line of an export.
func isEnd(line []byte) bool {
	var last struct {
		End *bool      `json:"end"`
		ID  *uuid.UUID `json:"id"`
	}
	return bytes.HasPrefix(line, []byte(`{"end":`)) && json.Unmarshal(line, &last) == nil && last.End != nil && last.ID == nil
}

// importing is an import on its way.
type importing struct {
	s        *server
	tenant   uuid.UUID
	policies func(context.Context, string) (*dlq.Policy, error)
	moment   dlq.Moment
	batch    []dlq.Letter
	lines    []int // of each letter of the batch
	out      api.DeadLetterImport
}

// take reads a line and stores the batch when it is full. Errors are outages.
func (in *importing) take(ctx context.Context, line int, text []byte) error {
	l, err := in.letter(ctx, text)
	switch f := fault.As(err); {
	case f != nil:
		in.refuse(line, f)
		return nil
	case err != nil:
		return err
	}
	in.batch, in.lines = append(in.batch, l), append(in.lines, line)
	if len(in.batch) < importBatch {
		return nil
	}
	return in.store(ctx)
}

func (in *importing) letter(ctx context.Context, text []byte) (dlq.Letter, error) {
	r, err := readRecord(text, in.s.Limits.MaxJSONDepth)
	if err != nil {
		return dlq.Letter{}, err
	}
	p, err := in.policies(ctx, r.OriginalTopic)
	if err != nil {
		return dlq.Letter{}, err
	}
	l, err := r.letter(in.tenant, p, in.moment)
	if err == nil && l.Target.Kind == dlq.ToHTTP {
		if reason := in.s.CheckEndpoint(l.Target.URL); reason != "" {
			err = notAllowed("/target/url", reason)
		}
	}
	return l, err
}

func (in *importing) refuse(line int, f *fault.Error) {
	in.out.Failed++
	if len(in.out.Errors) < importErrors {
		in.out.Errors = append(in.out.Errors, api.DeadLetterImportError{Line: line, Problem: *itemProblem(f)})
	}
}

// store pushes the batch. A letter whose id is somebody else's gets another one,
// which is the same whenever it is imported.
func (in *importing) store(ctx context.Context) error {
	batch, lines := in.batch, in.lines
	in.batch, in.lines = nil, nil
	for again := false; len(batch) > 0; again = true {
		pushed, err := in.s.DeadLetters.Letters.Push(ctx, batch)
		if err != nil {
			return err
		}
		var taken []dlq.Letter
		var at []int
		for i := range pushed {
			switch p := &pushed[i]; {
			case fault.IsCode(p.Err, dlq.CodeConflict) && !again:
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
			default:
				in.out.Imported++
			}
		}
		batch, lines = taken, at
	}
	return nil
}
