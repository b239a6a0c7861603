package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/db"
	"github.com/skald-saga/skald/internal/audit"
	"github.com/skald-saga/skald/internal/audit/auditdb"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/audit/trail"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/saga/sagadb"
)

// Trail identifies one chain of seals in the audit trail.
type Trail string

// The trails: two per tenant, and one for the whole deployment.
const (
	SagaEvents        Trail = "events"
	TenantActions     Trail = "actions"
	DeploymentActions Trail = "deployment"
)

// Trails lists all trails.
var Trails = []Trail{SagaEvents, TenantActions, DeploymentActions}

// VerifyAudit verifies a tenant's trail in the configured database, from a given seal to the end of
// the trail, and calls progress after each part. The schema must be current. Nothing is written.
func VerifyAudit(
	ctx context.Context,
	cfg config.Config,
	log *slog.Logger,
	which Trail,
	tenant uuid.UUID,
	from int64,
	progress func(trail.Verification),
) (trail.Verification, error) {
	cfg.Database.AutoMigrate = false
	db, stop, err := openAlone(ctx, cfg, log)
	if err != nil {
		return trail.Verification{}, err
	}
	defer stop()
	var chain trail.Sealed = sagadb.NewTrail(db)
	if which != SagaEvents {
		chain = auditdb.NewActions(db)
	}
	if which == DeploymentActions {
		tenant = operator.Deployment
	}
	for all := (trail.Verification{}); ; {
		v, err := audit.Verify(ctx, chain, tenant, from, 1000)
		if err != nil {
			return all, err
		}
		v.CheckedSeals, v.CheckedEvents = v.CheckedSeals+all.CheckedSeals, v.CheckedEvents+all.CheckedEvents
		v.ArchivedSeals, v.PurgedSeals, v.PurgedEvents =
			v.ArchivedSeals+all.ArchivedSeals, v.PurgedSeals+all.PurgedSeals, v.PurgedEvents+all.PurgedEvents
		if v.Head == nil {
			v.Head = all.Head
		}
		if all = v; v.Next == 0 || v.FirstBad != nil {
			return all, nil
		}
		progress(v)
		from = v.Next
	}
}

// Explained returns nil if reason can be stored in the record of actions: as in the API, it must be
// neither empty nor too long.
func Explained(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return errors.New("give the reason with --reason: the audit trail records it")
	case utf8.RuneCountInString(reason) > operator.MaxReason || !utf8.ValidString(reason):
		return fmt.Errorf("--reason must have at most %d characters, in UTF-8", operator.MaxReason)
	}
	return nil
}

// Commanded returns ctx for a command that makes changes: the record of actions then names the
// command, with the operating system's user and host as its address.
func Commanded(ctx context.Context, actor, command, reason string) context.Context {
	return operator.As(ctx, commandedBy(actor, command, reason))
}

// Migrating returns ctx for a command that changes the schema.
func Migrating(ctx context.Context, actor, command string) context.Context {
	by := commandedBy(actor, command, "")
	return db.As(ctx, db.By{Actor: by.Actor, Address: by.Address, Operation: by.Operation})
}

func commandedBy(actor, command, reason string) operator.By {
	by := operator.By{Actor: actor, Operation: command, Reason: reason}
	if u, err := user.Current(); err == nil {
		by.Address = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		by.Address += "@" + host
	}
	return by
}
