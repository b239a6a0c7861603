package vaulttest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// answer implements the API. It must be called with mu held.
func (v *Vault) answer(path, token string, body map[string]any) (int, any) {
	if l, ok := v.logins[path]; ok {
		return v.signIn(l, body)
	}
	t := v.tokens[token]
	if !v.alive(t) {
		return http.StatusForbidden, failure("permission denied", "invalid token")
	}
	switch path {
	case "auth/token/lookup-self":
		ttl := 0
		if !t.until.IsZero() {
			ttl = int(time.Until(t.until).Round(time.Second).Seconds())
		}
		return http.StatusOK, map[string]any{"data": map[string]any{"ttl": ttl, "renewable": t.ttl > 0}}
	case "auth/token/renew-self":
		t.renew(body)
		return http.StatusOK, auth(token, t)
	case "auth/token/revoke-self":
		t.revoked = true
		return http.StatusNoContent, nil
	case "sys/leases/renew":
		id, _ := body["lease_id"].(string)
		l := v.leases[id]
		if !v.alive(l) {
			return http.StatusBadRequest, failure("lease not found")
		}
		l.renew(body)
		return http.StatusOK, map[string]any{"lease_id": id, "lease_duration": l.left(), "renewable": true}
	}
	if r, ok := v.roles[path]; ok {
		return v.newLogin(path, r, token)
	}
	if data, ok := v.secrets[path]; ok {
		if strings.Contains(path, "/data/") {
			data = map[string]any{"data": data, "metadata": map[string]any{"version": 3}}
		}
		return http.StatusOK, map[string]any{"data": data, "lease_duration": 2764800}
	}
	return http.StatusNotFound, failure()
}

func (v *Vault) signIn(l Login, body map[string]any) (int, any) {
	for key, want := range l.Want {
		if body[key] != want {
			return http.StatusBadRequest, failure("invalid " + key)
		}
	}
	v.serial++
	token := fmt.Sprintf("hvs.token-%d", v.serial)
	v.tokens[token] = newGrant(l.TTL, l.MaxTTL)
	return http.StatusOK, auth(token, v.tokens[token])
}

func auth(token string, g *grant) any {
	return map[string]any{
		"auth": map[string]any{"client_token": token, "lease_duration": g.left(), "renewable": g.ttl > 0},
	}
}

func (v *Vault) newLogin(path string, r Role, token string) (int, any) {
	v.serial++
	n := 1
	for id := range v.leases {
		if strings.HasPrefix(id, path+"/") {
			n++
		}
	}
	user, password := fmt.Sprintf("v-user-%d", n), fmt.Sprintf("canary-password-%d", n)
	if r.Make != nil {
		user, password = r.Make(n)
	}
	id := fmt.Sprintf("%s/%d", path, v.serial)
	l := newGrant(r.TTL, r.MaxTTL)
	l.token = token
	v.leases[id] = l
	return http.StatusOK, map[string]any{
		"lease_id": id, "lease_duration": l.left(), "renewable": r.MaxTTL > r.TTL,
		"data": map[string]any{"username": user, "password": password},
	}
}

// renew extends g by the requested increment, but never past its maximum lifetime.
func (g *grant) renew(body map[string]any) {
	if g.ttl == 0 {
		return
	}
	by := g.ttl
	if n, ok := body["increment"].(float64); ok && n > 0 {
		by = time.Duration(n) * time.Second
	}
	if g.until = time.Now().Add(by); g.until.After(g.max) {
		g.until = g.max
	}
}

// left is the remaining time in seconds, or 0 if there is no end.
func (g *grant) left() int {
	if g.until.IsZero() {
		return 0
	}
	return int(time.Until(g.until).Round(time.Second).Seconds())
}
