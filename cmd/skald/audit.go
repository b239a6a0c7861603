package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/audit/trail"
)

type auditCmd struct {
	Verify auditVerify `cmd:"" help:"Recompute the digest of every audit event and the hash of every seal. Exit with status 1 on a mismatch."`
}

type auditVerify struct {
	Tenant  string `help:"Id of the tenant; default: tenant.default_id."`
	Trail   string `enum:"all,events,actions,deployment" default:"all" help:"What to verify: events of the tenant's sagas, actions on the tenant's resources, actions on the deployment, or all three."`
	FromSeq int64  `default:"1" help:"First seal to verify. The seal before it is trusted."`
}

var errTampered = errors.New("the audit trail was tampered with")

func (a auditVerify) Run(ctx context.Context, c *cli) error {
	cfg, log, err := c.loadExisting()
	if err != nil {
		return err
	}
	tenant := cfg.Tenant.DefaultID
	if a.Tenant != "" {
		if tenant, err = uuid.Parse(a.Tenant); err != nil {
			return fmt.Errorf("the tenant must be a UUID: %w", err)
		}
	}
	trails := []app.Trail{app.Trail(a.Trail)}
	if a.Trail == "all" {
		trails = app.Trails
	}
	switch {
	case a.FromSeq < 1:
		return errors.New("seals are numbered from 1")
	case a.FromSeq > 1 && len(trails) > 1:
		return errors.New("--from-seq requires --trail, because each trail numbers its own seals")
	}
	var tampered error
	for _, which := range trails {
		v, err := app.VerifyAudit(ctx, cfg, log, which, tenant, a.FromSeq, func(v trail.Verification) {
			fmt.Fprintf(os.Stderr, "%s: checked %s and %s so far\n", which,
				counted(v.CheckedSeals, "seal", "seals"), counted(v.CheckedEvents, "row", "rows"))
		})
		if err != nil {
			return err
		}
		if printVerified(which, &v) {
			tampered = errTampered
		}
	}
	return tampered
}

// printVerified prints the result of a verification and reports whether the trail was tampered
// with.
func printVerified(which app.Trail, v *trail.Verification) (tampered bool) {
	fmt.Printf(
		"%s: checked %s and %s; %s not sealed yet\n",
		which,
		counted(v.CheckedSeals, "seal", "seals"),
		counted(v.CheckedEvents, "row", "rows"),
		counted(v.Unsealed, "row is", "rows are"),
	)
	if v.ArchivedSeals > 0 {
		fmt.Printf(
			"%s: %s archived; %s purged from %s\n",
			which,
			counted(v.ArchivedSeals, "seal is", "seals are"),
			counted(v.PurgedEvents, "event was", "events were"),
			counted(v.PurgedSeals, "seal", "seals"),
		)
	}
	if v.Head != nil {
		fmt.Printf(
			"%s: the head is seal %d of %s, hash %x\n",
			which,
			v.Head.Seq,
			v.Head.SealedAt.Format("2006-01-02T15:04:05Z"),
			v.Head.Hash,
		)
	}
	bad := v.FirstBad
	if bad == nil {
		return false
	}
	row, of := "row", "action"
	if which == app.SagaEvents {
		row, of = "event", "saga"
	}
	fmt.Printf("%s: %s: seal %d, %s %d", which, bad.Kind, bad.Seq, row, bad.EventID)
	if bad.Subject != "" {
		fmt.Printf(", %s %s", of, bad.Subject)
	}
	fmt.Printf(": %s\n", bad.Detail)
	return true
}
