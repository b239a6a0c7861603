package httpapi

import (
	"context"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/rest"
)

// redactable is a response that can leave out what its reader may not see; false:
// not this one.
type redactable interface {
	Redacted(rest.Redactor) (api.Response, bool)
}

// redact takes out of successful answers what their reader may not see. It is
// the only place that does, and looks at every answer of every operation. What
// it cannot look into is not answered at all. What a worker gets is of the runs
// that it holds, and it could not do them without.
func (s *server) redact(ctx context.Context, out api.Response) (api.Response, error) {
	req := rest.RequestOf(ctx)
	if req.Who.Subject == "" || req.Who.Role.Allows(access.PayloadsRead) || req.Permission == access.JobsWork {
		return out, nil
	}
	if c, can := out.(redactable); can {
		if redacted, ok := c.Redacted(s.contract.redactor); ok {
			return redacted, nil
		}
	}
	return nil, req.Who.Require(access.PayloadsRead)
}
