package accesspages

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// signInForm asks for a credential.
type signInForm struct {
	Next     string // page to go to after signing in, below the base
	Problem  *client.Problem
	Insecure bool   // the browser would not store the cookie
	Provider string // name of the identity provider; empty: none
	Ended    bool   // the visitor requested another page without being signed in
	Unsent   unsent
}

// unsent is a form that was sent after the sender's session had ended. Each page passes it on to
// the next one in hidden fields, so that it is kept without scripts and exists only in the
// visitor's own page.
type unsent struct {
	To     string // URL that it is sent to, below the base; empty: there is no such form
	Fields []field
}

type field struct{ Name, Value string }

// carried is the prefix for the field names of an unsent form when they are sent along with a
// credential.
const carried = "unsent."

// unsentOf returns the fields of values whose names begin with prefix as a form for to. When it is
// sent, the form is shown again first, because it may be hours old or another person may have
// signed in.
func unsentOf(to string, values url.Values, prefix string) (u unsent) {
	if nextOf(to) != to {
		return u
	}
	u.To = to
	for name, all := range values {
		name, found := strings.CutPrefix(name, prefix)
		if !found || name == "do" {
			continue
		}
		for _, value := range all {
			u.Fields = append(u.Fields, field{name, value})
		}
	}
	slices.SortStableFunc(u.Fields, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	u.Fields = append(u.Fields, field{"do", "preview"})
	return u
}

func (p *pages) form(v *web.Visit, f signInForm) *web.Page {
	f.Insecure = !secure(v) && !loopback(v.Host)
	if p.kit.SingleSignOn != nil && !f.Insecure {
		f.Provider = p.kit.SingleSignOn.Name
	}
	page := &web.Page{Template: "sign-in", Title: "Sign in", Header: http.Header{}, Data: f}
	if f.Unsent.To != "" { // the form may contain secrets
		page.Header.Set("Cache-Control", "no-store")
	}
	return page
}

// secure reports whether the browser uses TLS.
func secure(v *web.Visit) bool { return v.TLS != nil || v.Header.Get("X-Forwarded-Proto") == "https" }

// loopback reports whether host is a loopback name or address, which means that the browser runs on
// this machine.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// nextOf returns the page to go to after signing in. It is always a page of this server.
func nextOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || !strings.HasPrefix(text, "/ui/") || strings.HasPrefix(text, "/ui/sign-") ||
		strings.Contains(text, `\`) || strings.Contains(u.Path, "..") {
		return "/ui/"
	}
	return text
}

// signInAgain returns the page for a request without a session. It keeps a submitted form, except
// for files.
func (p *pages) signInAgain(v *web.Visit) *web.Page {
	f := signInForm{Next: nextOf(v.Here()), Ended: true}
	if v.Method == http.MethodPost && v.ParseForm() == nil && len(v.PostForm) > 0 {
		f.Unsent = unsentOf(v.Here(), v.PostForm, "")
	}
	page := p.form(v, f)
	page.Status = http.StatusUnauthorized
	return page
}

func (p *pages) signInPage(v *web.Visit) (*web.Page, error) {
	who, err := p.kit.Client.WhoAmIWithResponse(v.Context())
	if err != nil {
		return nil, err
	}
	next := nextOf(v.URL.Query().Get("next"))
	if who.JSON200 != nil {
		return &web.Page{Data: web.Redirect(next)}, nil
	}
	return p.form(v, signInForm{Next: next}), nil
}

// signIn opens a session with an API key.
func (p *pages) signIn(v *web.Visit) (*web.Page, error) {
	if err := v.ParseForm(); err != nil {
		return nil, web.Malformed("The form cannot be read.")
	}
	f := signInForm{Next: nextOf(v.PostForm.Get("next"))}
	if to := v.PostForm.Get("unsent"); to != "" {
		f.Unsent = unsentOf(to, v.PostForm, carried)
	}
	credential := strings.TrimSpace(v.PostForm.Get("credential"))
	page, problem, err := p.open(v, credential, f.Next)
	switch {
	case err != nil:
		return nil, err
	case problem == nil && f.Unsent.To != "":
		page.Header.Set("Cache-Control", "no-store")
		return &web.Page{Template: "signed-in", Title: "Signed in", Header: page.Header, Data: f.Unsent}, nil
	case problem == nil:
		return page, nil
	}
	f.Problem = problem
	page = p.form(v, f)
	page.Status = problem.Status
	return page, nil
}

// open opens a session with a credential, which replaces any existing session of the visitor, and
// redirects to next. It returns the problem if the credential is rejected.
func (p *pages) open(v *web.Visit, credential, next string) (*web.Page, *client.Problem, error) {
	if credential == "" || strings.ContainsFunc(credential, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &client.Problem{
			Status: http.StatusUnauthorized, Title: "Invalid credential", Detail: "This is not an API key.",
		}, nil
	}
	before, err := p.kit.Client.WhoAmIWithResponse(v.Context())
	if err != nil {
		return nil, nil, err
	}
	res, err := p.kit.Client.CreateSessionWithResponse(v.Context(), func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+credential)
		return nil
	})
	switch {
	case err != nil:
		return nil, nil, err
	case res.ApplicationProblemJSONDefault != nil:
		return nil, res.ApplicationProblemJSONDefault, nil
	}
	if who := before.JSON200; who != nil && who.SessionID != nil { // use a new session for each sign-in
		_, err := p.kit.Client.DeleteSessionWithResponse(v.Context(), *who.SessionID, &client.DeleteSessionParams{})
		if err != nil {
			return nil, nil, err
		}
	}
	return &web.Page{Data: web.Redirect(next), Header: cookies(res.HTTPResponse)}, nil, nil
}

// cookies returns the cookies that a response of the API sets.
func cookies(res *http.Response) http.Header {
	return http.Header{"Set-Cookie": res.Header.Values("Set-Cookie")}
}

func (p *pages) signOut(v *web.Visit) (*web.Page, error) {
	page := &web.Page{Data: web.Redirect("/ui/sign-in")}
	if v.Who.SessionID == nil {
		return page, nil
	}
	res, err := p.kit.Client.DeleteSessionWithResponse(v.Context(), *v.Who.SessionID, &client.DeleteSessionParams{})
	if err != nil {
		return nil, err
	}
	if f := res.ApplicationProblemJSONDefault; f != nil && f.Status != http.StatusNotFound {
		return nil, &web.Refusal{Problem: *f}
	}
	page.Header = cookies(res.HTTPResponse)
	return page, nil
}

// signedIn is the page shown after signing in for a form that is still open in another window.
func (p *pages) signedIn(*web.Visit) (*web.Page, error) {
	return &web.Page{Template: "signed-in", Title: "Signed in", Data: unsent{}}, nil
}
