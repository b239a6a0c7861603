package httpapi

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/access"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/principal"
)

// authorize determines who makes a request, whether it is allowed, and for which tenant. This is
// the only place where that is decided. Operations without a permission (health, the contract) are
// open to everyone.
func (s *server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rt := s.contract.routeOf(r.Context(), r.Method)
		req := httpkit.RequestOf(r.Context())
		req.Route, req.Operation, req.Permission = rt.name, rt.operation, rt.permission
		if rt.open {
			next.ServeHTTP(w, r)
			return
		}
		err := s.allow(req, rt, r)
		if err == nil {
			err = s.limit(w, req)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if !s.cfg.Access.Development {
			w.Header()["Cache-Control"] = privately
		}
		next.ServeHTTP(w, r)
	})
}

// privately keeps answers out of shared caches and requires clients to revalidate them before each
// use. All answers share the value, which must not be modified.
var privately = []string{"private, no-cache"}

// allow sets the caller and the tenant of req. Faults: Unauthenticated, Forbidden,
// Malformed.
func (s *server) allow(req *httpkit.Request, rt *route, r *http.Request) error {
	who := principal.Anonymous
	if s.cfg.Access.Development {
		if err := ownMachine(r); err != nil {
			return err
		}
	} else {
		credential, err := credentialOf(r)
		if err != nil {
			return err
		}
		ctx, cancel := s.kit.Bounded(r.Context())
		defer cancel()
		if who, err = s.cfg.Access.Identify(ctx, credential); err != nil {
			return err
		}
	}
	if rt.permission != "" {
		if err := who.Require(rt.permission); err != nil {
			return err
		}
	}
	choice, err := choiceOf(r.Header)
	if err != nil {
		return err
	}
	req.Tenant, err = who.TenantFor(choice, s.cfg.Access.Tenant)
	who.Tenant = req.Tenant
	req.Who, req.Principal, req.Plain = who, who.Subject, plainLoopback(r)
	return err
}

var otherSites = http.NewCrossOriginProtection()

// ownMachine returns nil for requests that development mode serves. It rejects requests from web
// pages of other sites in a browser on this machine, including pages whose own host name resolves
// to this machine. Fault: Forbidden.
func ownMachine(r *http.Request) error {
	if r.Host != "" && !loopbackHost(r.Host) {
		return fault.New(fault.Forbidden, httpkit.CodeCrossSite,
			"in development mode, requests must be addressed to localhost or 127.0.0.1, not to %q", httpkit.Clip(r.Host))
	}
	if err := otherSites.Check(r); err != nil {
		return fault.New(fault.Forbidden, httpkit.CodeCrossSite, "in development mode, cross-site requests may not change anything").Because(err)
	}
	return nil
}

// credentialOf returns the credential of a request: the one in its headers or, without one, its
// session. Faults: Unauthenticated; Forbidden for a session that another site may have used.
func credentialOf(r *http.Request) (string, error) {
	bearer, key := r.Header["Authorization"], r.Header["X-Api-Key"]
	if len(bearer)+len(key) == 0 {
		return sessionOf(r)
	}
	credential, err := credentialOfHeaders(bearer, key)
	if _, session := access.ParseSessionToken(credential); session {
		return "", fault.New(fault.Unauthenticated, principal.CodeInvalid, "the credential is not valid here").
			Because(errors.New("a session token was sent outside its cookie"))
	}
	return credential, err
}

// sessionOf returns the session of a browser's request.
func sessionOf(r *http.Request) (string, error) {
	name := access.SessionCookie
	if plainLoopback(r) {
		name = access.PlainSessionCookie
	}
	cookie, err := r.Cookie(name)
	if err != nil {
		return "", fault.New(fault.Unauthenticated, principal.CodeRequired, "an API key or a JWT is required: send Authorization: Bearer … or X-API-Key: …")
	}
	if _, ok := access.ParseSessionToken(cookie.Value); !ok {
		return "", fault.New(fault.Unauthenticated, principal.CodeInvalid, "the cookie %s is not a session", name)
	}
	site := r.Header.Get("Sec-Fetch-Site")
	proof := site != "none" && (site != "" || r.Header.Get("Origin") != "") // every browser sends one of these headers
	reads := r.Method == http.MethodGet
	if err := otherSites.Check(r); err != nil || !reads && !proof {
		return "", fault.New(fault.Forbidden, httpkit.CodeCrossSite,
			"the request was made with a session, but nothing proves that a page of this server sent it").Because(err)
	}
	return cookie.Value, nil
}

// plainLoopback reports whether a browser on the server's own machine uses plain HTTP.
func plainLoopback(r *http.Request) bool {
	return r.TLS == nil && r.Header.Get("X-Forwarded-Proto") != "https" && loopbackHost(r.Host)
}

func loopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func credentialOfHeaders(bearer, key []string) (string, error) {
	switch {
	case len(bearer)+len(key) > 1:
		return "", fault.New(fault.Unauthenticated, principal.CodeInvalid, "the request has more than one credential: send exactly one")
	case len(key) == 1:
		return key[0], nil
	}
	scheme, credential, _ := strings.Cut(bearer[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", fault.New(fault.Unauthenticated, principal.CodeInvalid, "the scheme of Authorization must be Bearer")
	}
	return strings.TrimSpace(credential), nil
}

// choiceOf reads the headers that select a tenant. Fault: Malformed.
func choiceOf(h http.Header) (c principal.Choice, err error) {
	var wrong fault.Mistakes
	read := func(name string, parse func(string) bool, want string) {
		values := h[name]
		switch {
		case len(values) > 1:
			wrong = append(wrong, fault.Field{Header: name, Code: "repeated", Message: "must not be repeated"})
		case len(values) == 1 && !parse(values[0]):
			wrong = append(wrong, fault.Field{Header: name, Code: "invalid", Message: "must be " + want})
		}
	}
	read("X-Tenant-Id", func(v string) bool {
		id, err := uuid.Parse(v)
		c.ID = &id
		return err == nil && len(v) == 36 && id != uuid.Nil
	}, "a UUID that is not all zeros")
	read("X-Tenant-Region", func(v string) bool {
		c.Region = &v
		return utf8.ValidString(v) && utf8.RuneCountInString(v) <= 32
	}, "text of at most 32 characters")
	version := func(into **int) func(string) bool {
		return func(v string) bool {
			n, err := strconv.ParseUint(v, 10, 16)
			i := int(n)
			*into = &i
			return err == nil
		}
	}
	read("X-Tenant-Major", version(&c.Major), "a whole number from 0 to 65535")
	read("X-Tenant-Minor", version(&c.Minor), "a whole number from 0 to 65535")
	if wrong != nil {
		return c, httpkit.ParameterFault(httpkit.CodeInvalidParameter, wrong...)
	}
	return c, nil
}
