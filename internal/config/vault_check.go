package config

import (
	"net/netip"
	"net/url"
)

// Keeps reports whether the database login comes from Vault.
func (v Vault) Keeps() bool { return v.StaticPath != "" || v.DynamicPath != "" }

// vaultAddress accepts http:// and https:// with a host and nothing after it.
func vaultAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && isHost(u.Hostname()) &&
		u.User == nil && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
}

// inTheClear reports whether tokens would cross a network unencrypted.
func (v Vault) inTheClear() bool {
	u, err := url.Parse(v.Address)
	if err != nil || u.Scheme != "http" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() != "localhost" && (err != nil || !addr.Unmap().IsLoopback())
}

// missing returns the setting that the method requires and that is not set, "" if none is missing.
func (v Vault) missing() string {
	switch {
	case v.AuthMethod == "token" && v.Token == "":
		return "vault.token"
	case v.AuthMethod == "token_file" && v.TokenFile == "":
		return "vault.token_file"
	case v.AuthMethod == "approle" && v.RoleID == "":
		return "vault.role_id"
	case v.AuthMethod == "kubernetes" && v.KubernetesRole == "":
		return "vault.kubernetes_role"
	}
	return ""
}

// usesVault reports whether any setting comes from Vault.
func (c Config) usesVault() bool { return c.Vault.Keeps() || c.ParticipantSecrets.fromVault() }

// vaultRules are the rules between Vault's settings and the database's.
var vaultRules = []rule{
	{"vault.address", []string{"vault.static_path", "vault.dynamic_path", "participant_secrets"}, func(c Config) string {
		return unless(!c.usesVault() || c.Vault.Address != "", "must be set with a path, or for participant_secrets")
	}},
	{"vault.address", []string{"app.environment"}, func(c Config) string {
		return unless(c.App.Environment != Prod || !c.Vault.inTheClear(), "must be https:// in prod, or on loopback")
	}},
	{
		"vault.auth_method",
		[]string{"vault.token", "vault.token_file", "vault.role_id", "vault.kubernetes_role"},
		func(c Config) string {
			lacks := c.Vault.missing()
			return unless(!c.usesVault() || lacks == "", "needs "+lacks)
		},
	},
	{"database.host", []string{"database.url", "vault.static_path", "vault.dynamic_path"}, func(c Config) string {
		return unless(
			!c.Vault.Keeps() || !c.Database.Embedded(),
			"must be set (or database.url) when the password comes from Vault: the private PostgreSQL has its own",
		)
	}},
	{"database.password", []string{"database.url", "vault.static_path", "vault.dynamic_path"}, func(c Config) string {
		return unless(!c.Vault.Keeps() || c.Database.Password == "" && !c.Database.urlHasPassword(),
			"must not be given here, in a file or in database.url when it comes from Vault")
	}},
	{"database.password_file", []string{"database.url", "database.password"}, func(c Config) string {
		return unless(
			c.Database.PasswordFile == "" || !c.Database.urlHasPassword(),
			"must not be given when database.url has a password",
		)
	}},
	// A login owns the objects that it creates, so Vault could not drop it afterwards.
	{"database.auto_migrate", []string{"vault.dynamic_path"}, func(c Config) string {
		return unless(c.Vault.DynamicPath == "" || !c.Database.AutoMigrate,
			"must be false with vault.dynamic_path: run skald migrate up as the role that owns the schema")
	}},
}
