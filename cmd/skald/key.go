package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/app"
	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/page"
	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/tenant"
)

type keyCmd struct {
	Create   keyCreate   `cmd:"" help:"Create an API key and print it. It is shown only once."`
	List     keyList     `cmd:"" help:"List API keys, newest first."`
	Revoke   keyRevoke   `cmd:"" help:"Revoke an API key permanently."`
	Generate keyGenerate `cmd:"" help:"Print a new key for SKALD_BOOTSTRAP_ADMIN_KEY without storing it."`
}

// shell is the principal of these commands: anyone who can connect to the database.
var shell = principal.Principal{Subject: "cli", Role: principal.Admin, AnyTenant: true}

type keyCreate struct {
	Name      string        `required:"" help:"Name of the key's user. Keys with the same name count as one actor in audit records."`
	Role      string        `required:"" enum:"worker,auditor,operator,admin" help:"Role: worker, auditor, operator or admin."`
	Tenant    uuid.UUID     `help:"Tenant of the key; default: tenant.default_id." xor:"tenant"`
	AnyTenant bool          `help:"Let each request choose its tenant; only with --role admin." xor:"tenant"`
	Queues    []string      `help:"Queues that workers with this key may serve, only with --role worker; default: all queues of the tenant."`
	Expires   time.Duration `help:"How long the key is valid, such as 720h; default: forever."`
	Reason    string        `help:"Reason, for the audit trail."`
}

func (k keyCreate) Run(ctx context.Context, c *cli) error {
	if k.Reason != "" {
		if err := app.Explained(k.Reason); err != nil {
			return err
		}
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	want := access.Request{Name: k.Name, Role: principal.Role(k.Role), Queues: k.Queues}
	if k.Expires != 0 {
		at := now.Add(k.Expires)
		want.ExpiresAt = &at
	}
	return withKeys(ctx, c, func(keys access.Store, cfg config.Config) error {
		if !k.AnyTenant {
			t := tenant.Tenant{
				ID:     cfg.Tenant.DefaultID,
				Region: cfg.Tenant.DefaultRegion,
				Major:  cfg.Tenant.DefaultMajor,
				Minor:  cfg.Tenant.DefaultMinor,
			}
			if k.Tenant != uuid.Nil && k.Tenant != t.ID {
				t = tenant.Tenant{ID: k.Tenant}
			}
			want.Tenant = &t
		}
		for {
			chance, err := newChance()
			if err != nil {
				return err
			}
			key, token, err := access.Issue(want, shell, uuid.Must(uuid.NewV7()), chance, now)
			if err == nil {
				err = keys.Create(app.Commanded(ctx, shell.Subject, "skald key create", k.Reason), key)
			}
			if errors.Is(err, access.ErrPrefixTaken) {
				continue
			}
			if err == nil {
				fmt.Fprintf(os.Stderr, "API key %s, role %s, tenant %s, queues %s. It is not shown again:\n",
					key.ID, key.Role, tenantOf(key), queuesOf(key))
				fmt.Println(token)
			}
			return err
		}
	})
}

type keyList struct {
	All bool `help:"Include revoked and expired keys."`
}

func (k keyList) Run(ctx context.Context, c *cli) error {
	return withKeys(ctx, c, func(keys access.Store, _ config.Config) error {
		now, active := time.Now(), true
		f := access.Filter{Active: &active, Now: now, Request: page.Request[uuid.UUID]{Limit: 200}}
		if k.All {
			f.Active = nil
		}
		out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "ID\tPREFIX\tNAME\tROLE\tTENANT\tQUEUES\tCREATED\tEXPIRES\tLAST USED\tREVOKED")
		for more := true; more; {
			found, err := keys.List(ctx, nil, f)
			if err != nil {
				return err
			}
			for _, key := range found.Items {
				f.After = &key.ID
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", key.ID, key.Prefix, key.Name, key.Role,
					tenantOf(key), queuesOf(key), timeOf(&key.CreatedAt), timeOf(key.ExpiresAt),
					timeOf(key.LastUsedAt), timeOf(key.RevokedAt))
			}
			more = found.More
		}
		return out.Flush()
	})
}

type keyRevoke struct {
	ID     uuid.UUID `arg:"" help:"Id of the key, as shown by key list."`
	Reason string    `help:"Reason, for the audit trail; required."`
}

func (k keyRevoke) Run(ctx context.Context, c *cli) error {
	if err := app.Explained(k.Reason); err != nil {
		return err
	}
	return withKeys(ctx, c, func(keys access.Store, _ config.Config) error {
		key, err := keys.Revoke(
			app.Commanded(ctx, shell.Subject, "skald key revoke", k.Reason),
			nil,
			k.ID,
			shell.Subject,
			time.Now().UTC().Truncate(time.Microsecond),
		)
		if err == nil {
			fmt.Printf("%s (%s) is revoked; every node refuses it within 5 seconds\n", key.ID, key.Name)
		}
		return err
	})
}

type keyGenerate struct{}

func (keyGenerate) Run() error {
	chance, err := newChance()
	if err == nil {
		fmt.Println(access.NewToken(chance))
	}
	return err
}

func newChance() (chance [access.EntropyBytes]byte, err error) {
	_, err = rand.Read(chance[:])
	return chance, err
}

func withKeys(ctx context.Context, c *cli, f func(access.Store, config.Config) error) error {
	cfg, log, err := c.loadExisting()
	if err != nil {
		return err
	}
	return app.WithKeys(ctx, cfg, log, func(keys access.Store) error { return f(keys, cfg) })
}

func tenantOf(k access.Key) string {
	if k.Tenant == nil {
		return "any"
	}
	return k.Tenant.ID.String()
}

func queuesOf(k access.Key) string {
	if len(k.Queues) == 0 {
		return "all"
	}
	return strings.Join(k.Queues, ",")
}

func timeOf(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04Z")
}
