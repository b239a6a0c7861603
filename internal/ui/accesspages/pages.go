// Package accesspages contains the pages about access and the system: sign-in, sessions, API keys,
// the audit trail, settings and storage.
//
// Files, each on top of those before it: signin, signon, keys, sessions, tenants, audit, verify,
// system, pages.
package accesspages

import (
	"embed"
	"sync"

	"github.com/skald-saga/skald/internal/ui/web"
)

//go:embed templates
var templates embed.FS

type pages struct {
	kit          *web.Kit
	verifiedUpTo progress

	mu           sync.Mutex
	byPermission map[string][]operation // guarded by mu; nil: not read yet
	titles       map[string]string      // of operations by operationId; guarded by mu, read with byPermission
}

// Register adds the pages to k.
func Register(k *web.Kit) error {
	p := &pages{kit: k}
	k.SignIn = p.signInAgain
	k.OpenPage("GET /ui/sign-in", p.signInPage)
	k.OpenPage("POST /ui/sign-in", p.signIn)
	if k.SingleSignOn != nil {
		k.OpenPage("GET /ui/sign-in/oidc", p.beginSignOn)
		k.OpenPage("GET /ui/sign-in/oidc/callback", p.finishSignOn)
	}
	k.Page("POST /ui/sign-out", p.signOut)
	k.Page("GET /ui/signed-in", p.signedIn)
	k.Page("GET /ui/access", p.keys)
	k.Action("/ui/access/keys/new", p.newKey)
	k.Action("/ui/access/keys/{key}/revoke", p.revokeKey)
	k.Page("GET /ui/access/sessions", p.sessions)
	k.Action("/ui/access/sessions/{session}/end", p.endSession)
	k.Page("GET /ui/access/permissions", p.permissions)
	k.Page("GET /ui/tenants", p.tenants)
	k.Page("GET /ui/audit", p.actions)
	k.Page("GET /ui/audit/events", p.events)
	k.Page("GET /ui/audit/verify", p.verify)
	k.Page("GET /ui/system", p.system)
	k.Action("/ui/system/settings/{setting}", p.changeSetting)
	k.Action("/ui/system/retention", p.runRetention)
	return k.Templates(templates)
}
