package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/saga"
)

type auditCmd struct {
	Verify auditVerify `cmd:"" help:"Recompute the digest of every audit event and the hash of every seal. Ends with status 1 when one of them does not fit."`
}

type auditVerify struct {
	Tenant  string `help:"The tenant's id; the default tenant of the settings when left out."`
	FromSeq int64  `default:"1" help:"The first seal to check. The one before it is believed."`
}

var errTampered = errors.New("the audit trail is not what was written")

func (a auditVerify) Run(ctx context.Context, c *cli) error {
	cfg, log, err := c.load()
	if err != nil {
		return err
	}
	tenant := cfg.Tenant.DefaultID
	if a.Tenant != "" {
		if tenant, err = uuid.Parse(a.Tenant); err != nil {
			return fmt.Errorf("the tenant must be a UUID: %w", err)
		}
	}
	if a.FromSeq < 1 {
		return errors.New("seals are numbered from 1")
	}
	v, err := app.VerifyAudit(ctx, cfg, log, tenant, a.FromSeq, func(v saga.Verification) {
		fmt.Fprintf(os.Stderr, "%d seals, %d events so far\n", v.CheckedSeals, v.CheckedEvents)
	})
	if err != nil {
		return err
	}
	fmt.Printf("checked %d seals and %d events; %d events are not sealed yet\n", v.CheckedSeals, v.CheckedEvents, v.Unsealed)
	if v.Head != nil {
		fmt.Printf("head: seal %d of %s, hash %x\n", v.Head.Seq, v.Head.SealedAt.Format("2006-01-02T15:04:05Z"), v.Head.Hash)
	}
	if bad := v.FirstBad; bad != nil {
		fmt.Printf("%s: seal %d, event %d, saga %s: %s\n", bad.Kind, bad.Seq, bad.EventID, bad.SagaID, bad.Detail)
		return errTampered
	}
	return nil
}
