package config

import (
	"strings"

	"github.com/skald-saga/skald/internal/principal"
)

// roleOf reads an entry of auth.jwt_role_map. The name may contain "=".
func roleOf(entry string) (name string, role principal.Role, ok bool) {
	at := strings.LastIndexByte(entry, '=')
	if at < 0 {
		return "", "", false
	}
	name, role = strings.TrimSpace(entry[:at]), principal.Role(strings.TrimSpace(entry[at+1:]))
	return name, role, name != "" && role.Valid()
}

func roleName(entry string) bool {
	_, _, ok := roleOf(entry)
	return ok
}

// Roles maps the names in JWTRoleClaim to roles; nil if the names are themselves roles.
func (a Auth) Roles() map[string]principal.Role {
	var roles map[string]principal.Role
	for _, entry := range a.JWTRoleMap {
		if name, role, ok := roleOf(entry); ok {
			if roles == nil {
				roles = map[string]principal.Role{}
			}
			roles[name] = role
		}
	}
	return roles
}
