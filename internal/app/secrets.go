package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/config"
	"github.com/skald-saga/skald/internal/saga"
	"github.com/skald-saga/skald/internal/saga/registry"
	"github.com/skald-saga/skald/internal/saga/secrets"
	"github.com/skald-saga/skald/internal/secret/keeper"
	"github.com/skald-saga/skald/internal/secret/vault"
)

// addSecrets adds the secrets that participants may get, and reads them if this node makes calls. A
// secret that cannot be read is logged, but does not prevent the node from starting (decision
// 0149).
func (n *node) addSecrets(ctx context.Context) (err error) {
	reads := n.cfg.Has(config.RoleEngine)
	if len(n.cfg.ParticipantSecrets) == 0 {
		if reads { // so that the time series behind an alert exists from the start
			n.metrics.WatchSecrets(nil, func() int { return 0 })
		}
		return nil
	}
	cfg := keeper.Config{MaxAge: n.cfg.Participants.SecretMaxAge, Log: n.opt.Log}
	var bindings []registry.Binding
	var owners, names []string // of each source, without duplicates
	inVault := false
	for _, of := range n.cfg.ParticipantSecrets {
		b := registry.Binding{
			TenantID: cmp.Or(of.Tenant, n.cfg.Tenant.DefaultID), Participant: of.Participant, BaseURL: of.BaseURL,
		}
		for _, s := range of.Secrets {
			b.Secrets = append(b.Secrets, s.Name)
			cfg.Sources = append(cfg.Sources, keeper.Source{
				Label: of.Participant + "." + s.Name, File: s.File, Path: s.VaultPath, Key: s.VaultKey,
			})
			owners = append(owners, of.Participant)
			inVault = inVault || s.File == ""
		}
		names = append(names, of.Participant)
		bindings = append(bindings, b)
	}
	if reads && inVault {
		from := vaultOf(n.cfg.Vault)
		from.Log = n.opt.Log
		if n.vault, err = vault.NewReader(from); err != nil {
			return err
		}
		cfg.Vault = n.vault.Read
	}
	cfg.Observe = func(source int, err error) { n.metrics.SecretRead(owners[source], err) }
	n.keeper = keeper.New(cfg)
	n.secrets = secrets.New(n.known, n.keeper, reads, bindings)
	if !reads {
		return nil
	}
	n.metrics.WatchSecrets(names, n.keeper.Unreadable)
	n.keeper.Round(ctx)
	n.read = append(n.read, reread{"participant_secrets", func() error {
		if !n.keeper.Round(context.Background()) {
			return errors.New("not all secrets could be read")
		}
		return nil
	}})
	return nil
}

// keepSecrets re-reads the secrets of participants periodically until ctx ends.
func (n *node) keepSecrets(ctx context.Context) {
	if n.keeper == nil || !n.cfg.Has(config.RoleEngine) {
		return
	}
	var renewing sync.WaitGroup
	if n.vault != nil {
		renewing.Go(func() { n.vault.Run(ctx) })
	}
	n.keeper.Run(ctx)
	renewing.Wait()
	if n.vault != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := n.vault.Close(end); err != nil { // if this fails, the token expires later
			n.opt.Log.Warn("cannot revoke the Vault token", slog.Any("error", err))
		}
	}
}

// hidden is called when a participant's answer contained a secret, which was redacted.
func (n *node) hidden(c *saga.Call) {
	name := c.By.Names()
	if name == "" {
		if p := n.known.Of(c.Tenant, c.By.HTTP.URL); p != nil {
			name = p.Name
		}
	}
	n.metrics.SecretHidden(name)
}
