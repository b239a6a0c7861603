package accesspages

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/skald-saga/skald/internal/ui/web"
)

// Names of the cookie that binds a sign-in to the browser that began it, in the same forms as the
// names of the session cookie. The cookie is SameSite=Lax, because the person returns from another
// site.
const (
	begunCookie      = "__Host-skald-sign-in"
	plainBegunCookie = "skald-sign-in"
	begunSeconds     = 600
)

func begun(v *web.Visit, content string, seconds int) string {
	c := http.Cookie{
		Name: begunCookie, Value: content, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	}
	if !secure(v) {
		c.Name, c.Secure = plainBegunCookie, false
	}
	return c.String()
}

// beginSignOn redirects to the identity provider.
func (p *pages) beginSignOn(v *web.Visit) (*web.Page, error) {
	next := nextOf(v.URL.Query().Get("next"))
	if !secure(v) && !loopback(v.Host) {
		return p.form(v, signInForm{Next: next}), nil
	}
	to, kept, err := p.kit.SingleSignOn.Begin(v.Context(), p.callback(v), next)
	if err != nil {
		return p.notSignedOn(v, next, err)
	}
	return &web.Page{
		Data: web.Provider(to), Header: http.Header{"Set-Cookie": {begun(v, kept, begunSeconds)}},
	}, nil
}

// callback returns the URL to which the provider sends people back.
func (p *pages) callback(v *web.Visit) string {
	root := p.kit.SingleSignOn.PublicURL
	if root == "" {
		here := url.URL{Scheme: "http", Host: v.Host, Path: p.kit.Base}
		if secure(v) {
			here.Scheme = "https"
		}
		root = here.String()
	}
	return root + "/ui/sign-in/oidc/callback"
}

// finishSignOn opens a session for a person who returns from the provider. It responds with a page
// that loads the next page. After a redirect, the request would still count as coming from the
// provider's site, so the browser would not send the session cookie, which is SameSite=Strict.
func (p *pages) finishSignOn(v *web.Visit) (*web.Page, error) {
	name := begunCookie
	if !secure(v) {
		name = plainBegunCookie
	}
	var kept string
	if c, err := v.Cookie(name); err == nil {
		kept = c.Value
	}
	credential, next, err := p.kit.SingleSignOn.Finish(v.Context(), kept, v.URL.Query())
	if err != nil {
		return p.notSignedOn(v, "/ui/", err)
	}
	next = nextOf(next)
	page, problem, err := p.open(v, credential, next)
	switch {
	case err != nil:
		return nil, err
	case problem != nil:
		return p.notSignedOn(v, next, &web.Refusal{Problem: *problem})
	}
	page.Header.Add("Set-Cookie", begun(v, "", -1))
	page.Header.Set("Refresh", "0; url="+p.kit.Base+next)
	return &web.Page{Template: "signed-on", Title: "Signed in", Header: page.Header, Data: next}, nil
}

// notSignedOn returns the sign-in page with the reason why signing in at the provider failed. It
// deletes the cookie of the attempt.
func (p *pages) notSignedOn(v *web.Visit, next string, err error) (*web.Page, error) {
	var refused *web.Refusal
	if !errors.As(err, &refused) {
		return nil, err
	}
	page := p.form(v, signInForm{Next: next, Problem: &refused.Problem})
	page.Status = refused.Status
	page.Header.Set("Set-Cookie", begun(v, "", -1))
	return page, nil
}
