package identity

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/principal"
	"github.com/skald-saga/skald/internal/strictjson/plaintext"
	"github.com/skald-saga/skald/internal/tenant"
)

// claims are the claims of a verified token.
type claims map[string]any

// at returns the claim with a name, which is either literal, as in https://example.com/role, or a
// path, as in realm_access.roles. It returns nil if there is none.
func (c claims) at(name string) any {
	if v, ok := c[name]; ok {
		return v
	}
	var v any = map[string]any(c)
	for part := range strings.SplitSeq(name, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[part]
	}
	return v
}

// role returns the last of principal.Roles that a claim contains, as text or in a list. If byName
// is not empty, only the names in it count, because the same word may be a role of another
// application. Other values belong to other systems and are ignored. A caller without a role is
// authenticated but has no permissions.
func (c claims) role(claim string, byName map[string]principal.Role) principal.Role {
	list, ok := c.at(claim).([]any)
	if !ok {
		list = []any{c.at(claim)}
	}
	best := -1
	for _, v := range list {
		word, _ := v.(string)
		role := principal.Role(word)
		if len(byName) > 0 {
			role = byName[word]
		}
		best = max(best, slices.Index(principal.Roles, role))
	}
	if best < 0 {
		return ""
	}
	return principal.Roles[best]
}

// maxName is the maximum length of a person's name, in characters.
const maxName = 100

// person returns the name in a claim in the form in which it is recorded and shown: on one line,
// shortened, and without characters that could reorder or hide adjacent text. It returns "" if the
// token has no name.
func (c claims) person(claim string) string {
	if claim == "" {
		return ""
	}
	name, _ := c.at(claim).(string)
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, plaintext.Replacement))
	return plaintext.Text(strings.Join(strings.Fields(name), " "), plaintext.Characters(maxName))
}

// tenant reads the tenant of a token. It returns the zero tenant if there is none.
func (c claims) tenant(claim string) (t tenant.Tenant, err error) {
	if v := c.at(claim); v != nil {
		text, _ := v.(string)
		if t.ID, err = uuid.Parse(text); err != nil || t.ID == uuid.Nil || len(text) != 36 {
			return t, fmt.Errorf("the token's %s is not a UUID", claim)
		}
	}
	if v, ok := c["tenant_region"]; ok {
		if t.Region, ok = v.(string); !ok || utf8.RuneCountInString(t.Region) > 32 || t.Region != "" && !printable(t.Region) {
			return t, fmt.Errorf("the token's tenant_region is not text of at most 32 characters")
		}
	}
	for name, into := range map[string]*int{"tenant_major": &t.Major, "tenant_minor": &t.Minor} {
		if v, ok := c[name]; ok {
			n, ok := v.(float64)
			if *into = int(n); !ok || n < 0 || n > 65535 || n != float64(*into) {
				return t, fmt.Errorf("the token's %s is not a whole number from 0 to 65535", name)
			}
		}
	}
	if t.ID == uuid.Nil && t != (tenant.Tenant{}) {
		return t, fmt.Errorf("the token has a tenant's region or version, but no %s", claim)
	}
	return t, nil
}

// printable reports whether s is text that can be stored, logged and displayed.
func printable(s string) bool {
	return s != "" && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
