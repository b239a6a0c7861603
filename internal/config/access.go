package config

import (
	"time"

	"github.com/google/uuid"
)

// AuthMode decides whether the API requires credentials.
type AuthMode string

// The modes. AuthAuto requires credentials unless the node clearly runs on a developer's
// machine; see Config.AuthRequired.
const (
	AuthAuto     AuthMode = "auto"
	AuthRequired AuthMode = "required"
	AuthOff      AuthMode = "off"
)

// Auth decides which credentials are accepted. BootstrapAdminKey and OIDCClientSecret hold the
// content of their files if files are given.
type Auth struct {
	Mode                  AuthMode      `key:"mode" validate:"oneof=auto required off" doc:"Whether the API requires credentials. With auto, it does unless listen_addr is on loopback, the profile is dev or test, and neither a bootstrap key nor an issuer is set. off is refused in prod and when listen_addr is not on loopback."`
	BootstrapAdminKey     Secret        `key:"bootstrap_admin_key" env:"SKALD_BOOTSTRAP_ADMIN_KEY" validate:"omitempty,api_key" doc:"An API key, as printed by skald key generate. At start it is stored as an admin key for all tenants, unless it already exists. Excludes bootstrap_admin_key_file."`
	BootstrapAdminKeyFile string        `key:"bootstrap_admin_key_file" doc:"File that contains that key. Excludes bootstrap_admin_key."`
	JWTIssuer             string        `key:"jwt_issuer" validate:"omitempty,issuer_url" doc:"Issuer of JWTs, exactly as in their iss claim; empty means that JWTs are not accepted."`
	JWTAudience           string        `key:"jwt_audience" validate:"required,max=255" doc:"Value that the aud claim of JWTs must contain; other tokens are rejected."`
	JWKSURL               string        `key:"jwks_url" validate:"omitempty,issuer_url" doc:"URL of the issuer's keys; empty means that it is taken from the discovery document."`
	JWTAlgorithms         []string      `key:"jwt_algorithms" validate:"min=1,dive,oneof=EdDSA ES256 RS256" doc:"Accepted signature algorithms."`
	JWTLeeway             time.Duration `key:"jwt_leeway" validate:"min=0s,max=60s" doc:"Maximum clock difference to the issuer."`
	JWTRoleClaim          string        `key:"jwt_role_claim" validate:"required,max=255" doc:"Claim with the role (a string or a list), by its name or as a path such as resource_access.skald.roles."`
	JWTRoleMap            []string      `key:"jwt_role_map" validate:"dive,role_name" doc:"Mapping of the names in jwt_role_claim to roles, for issuers that use other names: NAME=ROLE, such as /skald/admins=admin. If the mapping is not empty, names outside it are not roles, not even admin."`
	JWTNameClaim          string        `key:"jwt_name_claim" validate:"max=255" doc:"Claim with the display name of the caller, by its name or as a path. It is shown and recorded beside the subject, and never used for decisions. Empty means that only subjects are recorded."`
	JWTTenantClaim        string        `key:"jwt_tenant_claim" validate:"required,max=255" doc:"Claim with the tenant's UUID, by its name or as a path. A token without it is refused, unless jwt_default_tenant is on."`
	JWTDefaultTenant      bool          `key:"jwt_default_tenant" doc:"Whether a JWT without a tenant acts on the default tenant, which also owns the built-in jobs. If off, such a token is refused, so a missing mapping at the issuer grants nothing."`
	OIDCClientID          string        `key:"oidc_client_id" validate:"max=255" doc:"Client id of Skald at that issuer; with it, people can sign in to the pages under /ui/ without an API key. Empty means that they cannot. Requires jwt_issuer and oidc_client_secret."`
	OIDCClientSecret      Secret        `key:"oidc_client_secret" doc:"Secret of that client. All nodes need the same. Excludes oidc_client_secret_file."`
	OIDCClientSecretFile  string        `key:"oidc_client_secret_file" doc:"File that contains the secret; trailing line breaks are ignored. Excludes oidc_client_secret."`
	OIDCScopes            []string      `key:"oidc_scopes" validate:"dive,max=255" doc:"Scopes to request in addition to openid, so that the ID token contains the role and tenant claims."`
	OIDCName              string        `key:"oidc_name" validate:"required,max=63" doc:"Name of the issuer, shown on the button \"Sign in with …\"."`
}

func defaultAuth() Auth {
	return Auth{
		Mode:           AuthAuto,
		JWTAudience:    "skald",
		JWTAlgorithms:  []string{"EdDSA", "ES256", "RS256"},
		JWTLeeway:      30 * time.Second,
		JWTRoleClaim:   "role",
		JWTNameClaim:   "preferred_username",
		JWTTenantClaim: "tenant_id",
		OIDCScopes:     []string{"profile"},
		OIDCName:       "single sign-on",
	}
}

// Encryption has the keys that seal content. Keys holds the content of KeyFile if a file is given.
type Encryption struct {
	Keys    Secret `key:"keys" doc:"Master keys as ID:KEY, separated by commas or white space; KEY is 32 bytes in base64, as printed by openssl rand -base64 32. The first key encrypts, all keys decrypt. Excludes key_file."`
	KeyFile string `key:"key_file" doc:"File that contains the master keys, one per line. Excludes keys."`
	Seal    bool   `key:"seal" doc:"Whether new content is encrypted. false only decrypts existing content: use it until every node has the keys, and to disable encryption again."`
}

func defaultEncryption() Encryption {
	return Encryption{Seal: true}
}

// Tenant is the default tenant, for requests whose credential and headers do not name one.
type Tenant struct {
	DefaultID     uuid.UUID `key:"default_id" validate:"required" doc:"Tenant of requests that do not name one."`
	DefaultRegion string    `key:"default_region" validate:"max=32" doc:"Region code of the default tenant."`
	DefaultMajor  int       `key:"default_major" validate:"min=0,max=65535" doc:"Major version of the default tenant."`
	DefaultMinor  int       `key:"default_minor" validate:"min=0,max=65535" doc:"Minor version of the default tenant."`
}

func defaultTenant() Tenant {
	return Tenant{DefaultID: uuid.MustParse("00000000-0000-0000-0000-000000000001")}
}
