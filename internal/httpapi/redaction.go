package httpapi

import (
	"context"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/principal"
)

// redactable is a response that can be redacted. It returns false if this particular one cannot.
type redactable interface {
	Redacted(httpkit.Redactor) (api.Response, bool)
}

// redact removes the content that the caller may not see from successful responses. Every response
// of every operation passes through it, and a response that it cannot redact is not sent. A worker
// sees the content of its runs because it needs it to execute them.
func (s *server) redact(ctx context.Context, out api.Response) (api.Response, error) {
	req := httpkit.RequestOf(ctx)
	if req.Who.Subject == "" || req.Who.Role.Allows(principal.PayloadsRead) || req.Permission == principal.JobsWork {
		return out, nil
	}
	if c, can := out.(redactable); can {
		if redacted, ok := c.Redacted(s.contract.redactor); ok {
			return redacted, nil
		}
	}
	return nil, req.Who.Require(principal.PayloadsRead)
}
