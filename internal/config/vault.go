package config

import "time"

// Vault configures the address of HashiCorp Vault, how Skald logs in to it, and what it reads: a
// stored password (StaticPath) or a login that Vault creates for this node (DynamicPath). At most
// one of the two is set.
type Vault struct {
	Address     string `key:"address" validate:"omitempty,vault_address" doc:"Address of Vault or of a Vault agent. prod refuses http:// except on loopback."`
	Namespace   string `key:"namespace" validate:"max=255" doc:"Namespace of Vault Enterprise."`
	CACert      string `key:"ca_cert" doc:"File of CA certificates to verify Vault with; empty means the system's."`
	StaticPath  string `key:"static_path" validate:"max=1024" doc:"API path of the secret that contains the database password; for version 2 of the engine, with data/ after the mount: secret/data/k1s0/system/saga/database. Read at start, and again when PostgreSQL rejects the password. Excludes dynamic_path."`
	DynamicPath string `key:"dynamic_path" validate:"max=1024" doc:"API path at which Vault creates a database login: database/creds/system-saga-rw. Skald renews its lease, and fetches a new login before the lease ends. Excludes static_path."`
	UsernameKey string `key:"username_key" validate:"required,max=255" doc:"Key of the user name in the secret of static_path; if the secret has none, database.user applies."`
	PasswordKey string `key:"password_key" validate:"required,max=255" doc:"Key of the password in the secret of static_path."`

	AuthMethod     string        `key:"auth_method" validate:"oneof=token token_file approle kubernetes" doc:"How Skald logs in to Vault."`
	AuthMount      string        `key:"auth_mount" validate:"max=255" doc:"Mount of the method approle or kubernetes; empty means its name."`
	Token          Secret        `key:"token" doc:"Token for the method token. Skald renews it if it is renewable."`
	TokenFile      string        `key:"token_file" doc:"File for the method token_file, maintained by a Vault agent; read again when Vault rejects its token."`
	RoleID         string        `key:"role_id" validate:"max=255" doc:"Role id for the method approle."`
	SecretID       Secret        `key:"secret_id" doc:"Secret id for the method approle. Excludes secret_id_file."`
	SecretIDFile   string        `key:"secret_id_file" doc:"File that contains the secret id; read at every login. Excludes secret_id."`
	KubernetesRole string        `key:"kubernetes_role" validate:"max=255" doc:"Role for the method kubernetes."`
	JWTFile        string        `key:"jwt_file" validate:"required" doc:"File of the service account's token for the method kubernetes; read at every login."`
	Timeout        time.Duration `key:"timeout" validate:"min=100ms,max=1m" doc:"Timeout of one call to Vault, including retries."`
}

func defaultVault() Vault {
	return Vault{
		UsernameKey: "username",
		PasswordKey: "password",
		AuthMethod:  "token",
		JWTFile:     "/var/run/secrets/kubernetes.io/serviceaccount/token",
		Timeout:     10 * time.Second,
	}
}
