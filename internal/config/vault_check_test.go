package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRulesOfVault(t *testing.T) {
	base := []string{
		"SKALD_DATABASE_HOST=db",
		"SKALD_VAULT_ADDRESS=https://vault:8200",
		"SKALD_VAULT_STATIC_PATH=secret/data/x",
		"SKALD_VAULT_TOKEN=canary",
	}
	for _, tt := range []struct {
		name    string
		environ []string // overrides base; the last value of a name counts
		want    []string // nil when it is valid
	}{
		{"a static path", nil, nil},
		{"a static path and migrations", []string{"SKALD_DATABASE_AUTO_MIGRATE=true"}, nil},
		{"a URL without a password", []string{"SKALD_DATABASE_HOST=", "SKALD_DATABASE_URL=postgres://app@db/x"}, nil},
		{"an address alone", []string{"SKALD_VAULT_STATIC_PATH="}, nil},
		{"a path without an address", []string{"SKALD_VAULT_ADDRESS="}, []string{"vault.address (SKALD_VAULT_ADDRESS): must be set with a path, or for participant_secrets"}},
		{"an address that is none", []string{"SKALD_VAULT_ADDRESS=vault:8200"},
			[]string{"vault.address (SKALD_VAULT_ADDRESS): must be empty or http:// or https:// with a host and optionally a port, such as https://vault.internal:8200"}},
		{"an address with a token in it", []string{"SKALD_VAULT_ADDRESS=https://canary@vault:8200"},
			[]string{"vault.address (SKALD_VAULT_ADDRESS): must be empty or http:// or https:// with a host and optionally a port, such as https://vault.internal:8200"}},
		{"in the clear", []string{"SKALD_VAULT_ADDRESS=http://vault:8200"}, nil},
		{"in the clear in prod", []string{"SKALD_ENV=prod", "SKALD_VAULT_ADDRESS=http://vault:8200"},
			[]string{"vault.address (SKALD_VAULT_ADDRESS): must be https:// in prod, or on loopback"}},
		{"an agent beside us in prod", []string{"SKALD_ENV=prod", "SKALD_VAULT_ADDRESS=http://127.0.0.1:8200"}, nil},
		{"two paths", []string{"SKALD_VAULT_DYNAMIC_PATH=database/creds/x", "SKALD_DATABASE_AUTO_MIGRATE=false"},
			[]string{"vault.dynamic_path (SKALD_VAULT_DYNAMIC_PATH): excludes vault.static_path: set only one of them"}},
		{"migrations by a login that Vault drops", []string{"SKALD_VAULT_STATIC_PATH=", "SKALD_VAULT_DYNAMIC_PATH=database/creds/x"},
			[]string{"database.auto_migrate (default; env SKALD_DATABASE_AUTO_MIGRATE): must be false with vault.dynamic_path: run skald migrate up as the role that owns the schema"}},
		{"a dynamic path in prod", []string{"SKALD_ENV=prod", "SKALD_VAULT_STATIC_PATH=", "SKALD_VAULT_DYNAMIC_PATH=database/creds/x"}, nil},
		{"no token", []string{"SKALD_VAULT_TOKEN="}, []string{"vault.auth_method (default; env SKALD_VAULT_AUTH_METHOD): needs vault.token"}},
		{"no token file", []string{"SKALD_VAULT_AUTH_METHOD=token_file"}, []string{"vault.auth_method (SKALD_VAULT_AUTH_METHOD): needs vault.token_file"}},
		{"no role id", []string{"SKALD_VAULT_AUTH_METHOD=approle", "SKALD_VAULT_SECRET_ID=canary"}, []string{"vault.auth_method (SKALD_VAULT_AUTH_METHOD): needs vault.role_id"}},
		{"no Kubernetes role", []string{"SKALD_VAULT_AUTH_METHOD=kubernetes"}, []string{"vault.auth_method (SKALD_VAULT_AUTH_METHOD): needs vault.kubernetes_role"}},
		{"another password", []string{"SKALD_DATABASE_PASSWORD=canary"},
			[]string{"database.password (SKALD_DATABASE_PASSWORD): must not be given here, in a file or in database.url when it comes from Vault"}},
		{"another password in the URL", []string{"SKALD_DATABASE_HOST=", "SKALD_DATABASE_URL=postgres://app:canary@db/x"},
			[]string{"database.password (default; env SKALD_DATABASE_PASSWORD): must not be given here, in a file or in database.url when it comes from Vault"}},
		{"the private PostgreSQL", []string{"SKALD_DATABASE_HOST="},
			[]string{"database.host (SKALD_DATABASE_HOST): must be set (or database.url) when the password comes from Vault: the private PostgreSQL has its own"}},
		{"a password file beside a URL with a password", []string{"SKALD_VAULT_STATIC_PATH=", "SKALD_DATABASE_HOST=", "SKALD_DATABASE_URL=postgres://app:canary@db/x", "SKALD_DATABASE_PASSWORD_FILE=testdata/password"},
			[]string{"database.password_file (SKALD_DATABASE_PASSWORD_FILE): must not be given when database.url has a password"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			environ := append(append([]string{}, base...), tt.environ...)
			if tt.want == nil {
				if _, err := Load("", environ); err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, mistakes(t, "", environ...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnotherLoginReplacesThatOfTheURL(t *testing.T) {
	d := Default(Dev).Database
	d.URL = "postgres://u:p@h/n"
	const rest = " sslmode='disable' application_name='skald' connect_timeout='10' statement_timeout='30000'"
	if got, want := d.DSNAs("v", "q'"), `host='h' port='5432' dbname='n' user='v' password='q\'' `+rest[1:]; got != want {
		t.Errorf("DSNAs = %s, want %s", got, want)
	}
	if d.DSNAs("", "") != d.DSN() {
		t.Errorf("without another login: %s, want %s", d.DSNAs("", ""), d.DSN())
	}
	d.URL = ""
	if got := d.DSNAs("v", "q"); got != "" {
		t.Errorf("the private PostgreSQL has the address %s before it runs", got)
	}
}
