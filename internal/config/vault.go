package config

import (
	"net/netip"
	"net/url"
	"time"
)

// Vault says where HashiCorp Vault is, how Skald signs in there, and what it
// reads: a password that somebody keeps there (StaticPath), or a login that
// Vault makes for this node (DynamicPath). Never both are set.
type Vault struct {
	Address     string `koanf:"address" validate:"omitempty,vault_address" doc:"Address of Vault or of a Vault agent. prod refuses http:// but on loopback."`
	Namespace   string `koanf:"namespace" validate:"max=255" doc:"Namespace of Vault Enterprise."`
	CACert      string `koanf:"ca_cert" doc:"File of CA certificates to verify Vault with; empty means the system's."`
	StaticPath  string `koanf:"static_path" validate:"max=1024" doc:"API path of the secret that holds the database's password, for version 2 of the engine with data/ after the mount: secret/data/k1s0/system/saga/database. Read at start, and again when PostgreSQL refuses the password. Excludes dynamic_path."`
	DynamicPath string `koanf:"dynamic_path" validate:"max=1024" doc:"API path at which Vault makes a login for the database: database/creds/system-saga-rw. Its lease is renewed, and a new login is taken before it ends. Excludes static_path."`
	UsernameKey string `koanf:"username_key" validate:"required,max=255" doc:"Key of the user in the secret of static_path; when the secret lacks it, the user is database.user."`
	PasswordKey string `koanf:"password_key" validate:"required,max=255" doc:"Key of the password in the secret of static_path."`

	AuthMethod     string        `koanf:"auth_method" validate:"oneof=token token_file approle kubernetes" doc:"How Skald signs in to Vault."`
	AuthMount      string        `koanf:"auth_mount" validate:"max=255" doc:"Mount of the method approle or kubernetes; empty means its name."`
	Token          Secret        `koanf:"token" doc:"Token for the method token. It is renewed if it can be."`
	TokenFile      string        `koanf:"token_file" doc:"File for the method token_file, kept by a Vault agent; read again when Vault refuses its token."`
	RoleID         string        `koanf:"role_id" validate:"max=255" doc:"Role id for the method approle."`
	SecretID       Secret        `koanf:"secret_id" doc:"Secret id for the method approle. Excludes secret_id_file."`
	SecretIDFile   string        `koanf:"secret_id_file" doc:"File that holds the secret id; read at every sign-in. Excludes secret_id."`
	KubernetesRole string        `koanf:"kubernetes_role" validate:"max=255" doc:"Role for the method kubernetes."`
	JWTFile        string        `koanf:"jwt_file" validate:"required" doc:"File of the service account's token for the method kubernetes; read at every sign-in."`
	Timeout        time.Duration `koanf:"timeout" validate:"min=100ms,max=1m" doc:"Longest time of one call to Vault, repetitions included."`
}

// Keeps tells whether Vault has the database's login.
func (v Vault) Keeps() bool { return v.StaticPath != "" || v.DynamicPath != "" }

// vaultAddress accepts http:// and https:// with a host, and nothing after it.
func vaultAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && isHost(u.Hostname()) &&
		u.User == nil && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
}

// inTheClear tells whether tokens would cross a network readably.
func (v Vault) inTheClear() bool {
	u, err := url.Parse(v.Address)
	if err != nil || u.Scheme != "http" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() != "localhost" && (err != nil || !addr.Unmap().IsLoopback())
}

// missing is the setting that the method needs and lacks, if any.
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

// vaultRules are the conditions between Vault's settings and the database's.
var vaultRules = []rule{
	{"vault.address", []string{"vault.static_path", "vault.dynamic_path"}, func(c Config) string {
		return unless(!c.Vault.Keeps() || c.Vault.Address != "", "must be set with a path")
	}},
	{"vault.address", []string{"app.environment"}, func(c Config) string {
		return unless(c.App.Environment != Prod || !c.Vault.inTheClear(), "must be https:// in prod, or on loopback")
	}},
	{
		"vault.auth_method",
		[]string{"vault.token", "vault.token_file", "vault.role_id", "vault.kubernetes_role"},
		func(c Config) string {
			lacks := c.Vault.missing()
			return unless(!c.Vault.Keeps() || lacks == "", "needs "+lacks)
		},
	},
	{"database.host", []string{"database.url", "vault.static_path", "vault.dynamic_path"}, func(c Config) string {
		return unless(
			!c.Vault.Keeps() || !c.Database.Embedded(),
			"must be set, or database.url, when Vault keeps the password: the private PostgreSQL has its own",
		)
	}},
	{"database.password", []string{"database.url", "vault.static_path", "vault.dynamic_path"}, func(c Config) string {
		return unless(!c.Vault.Keeps() || c.Database.Password == "" && !c.Database.urlHasPassword(),
			"must not be given here, in a file or in database.url when Vault keeps it")
	}},
	{"database.password_file", []string{"database.url", "database.password"}, func(c Config) string {
		return unless(
			c.Database.PasswordFile == "" || !c.Database.urlHasPassword(),
			"must not be given when database.url has a password",
		)
	}},
	// What a login makes belongs to it, and Vault could then not drop it.
	{"database.auto_migrate", []string{"vault.dynamic_path"}, func(c Config) string {
		return unless(c.Vault.DynamicPath == "" || !c.Database.AutoMigrate,
			"must be false with vault.dynamic_path: run skald migrate up as the role that owns the schema")
	}},
}
