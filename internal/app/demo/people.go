package demo

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/skald-saga/skald/internal/config"
)

// roles are the people of a demo that keeps running, with their roles. A visitor is kim unless they
// choose to be someone else.
var roles = map[string]string{visitor: "operator", "ada": "admin", "otto": "auditor"}

const visitor = "kim"

// people is the identity provider of a demo that keeps running: it signs people in without a password.
type people struct {
	issuer string // URL
	skald  string // URL of the server, once it is known; guarded by mu
	key    ed25519.PrivateKey
	secret string

	mu    sync.Mutex
	asked map[string]request // guarded by mu: sign-ins in progress, by the code that completes them
}

// request is a sign-in in progress.
type request struct {
	person string
	url.Values
}

// The server's client ID at the provider, and the ID of the provider's key.
const (
	clientID = "skald-demo"
	keyID    = "demo"
)

// chosen is the cookie that stores which person the visitor has chosen to be.
const chosen = "skald-demo-person"

func newPeople(root string) (*people, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return &people{issuer: root + "/people", key: key, secret: rand.Text(), asked: map[string]request{}}, err
}

// signIn configures a server to use this identity provider.
func (p *people) signIn(a *config.Auth) {
	a.Mode, a.JWTIssuer, a.JWKSURL, a.JWTDefaultTenant = config.AuthRequired, p.issuer, "", true
	a.JWTRoleClaim, a.JWTRoleMap, a.JWTAlgorithms = "role", nil, []string{"EdDSA"}
	a.OIDCClientID, a.OIDCClientSecret, a.OIDCName = clientID, config.Secret(p.secret), "the demo"
}

// token returns a JWT that identifies a person to an audience.
func (p *people) token(person, audience, nonce string) (string, error) {
	now, signed := time.Now(), ""
	for _, part := range []object{{"alg": "EdDSA", "kid": keyID}, {
		"iss": p.issuer, "aud": audience, "sub": person, "preferred_username": person, "nonce": nonce, "role": roles[person],
		"iat": now.Unix(), "exp": now.Add(24 * time.Hour).Unix(),
	}} {
		text, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		signed += "." + base64.RawURLEncoding.EncodeToString(text)
	}
	signed = signed[1:]
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(p.key, []byte(signed))), nil
}

// serve adds the provider's endpoints: the OpenID Connect ones, and one for becoming another person.
func (p *people) serve(mux *http.ServeMux) {
	mux.HandleFunc("GET /people/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, object{
			"issuer": p.issuer, "jwks_uri": p.issuer + "/keys", "authorization_endpoint": p.issuer + "/authorize",
			"token_endpoint": p.issuer + "/token",
		})
	})
	mux.HandleFunc("GET /people/keys", func(w http.ResponseWriter, _ *http.Request) {
		public, _ := p.key.Public().(ed25519.PublicKey) // the key is always of this type
		answer(w, http.StatusOK, object{"keys": []object{{
			"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(public), "kid": keyID, "use": "sig",
			"alg": "EdDSA",
		}}})
	})
	mux.HandleFunc("GET /people/authorize", p.authorize)
	mux.HandleFunc("POST /people/token", p.exchange)
	mux.HandleFunc("GET /people/as/{person}", p.become)
}

// at sets the URL of the server.
func (p *people) at(skald string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skald = skald
}

// become makes the visitor another person and signs that person in.
func (p *people) become(w http.ResponseWriter, r *http.Request) {
	person := r.PathValue("person")
	if roles[person] == "" {
		http.Error(w, "the people of the demo are ada, kim and otto", http.StatusNotFound)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	http.SetCookie(w, &http.Cookie{
		Name: chosen, Value: person, Path: "/people", HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, r, p.skald+signInPath, http.StatusFound)
}

// signInPath is the path at the server that begins a sign-in.
const signInPath = "/ui/sign-in/oidc"

func (p *people) authorize(w http.ResponseWriter, r *http.Request) {
	person := visitor
	if c, err := r.Cookie(chosen); err == nil && roles[c.Value] != "" {
		person = c.Value
	}
	q, code := r.URL.Query(), rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != clientID || !p.isSkald(back) {
		http.Error(w, "this sign-in was not started by the demo's server", http.StatusBadRequest)
		return
	}
	if len(p.asked) > 1000 {
		clear(p.asked) // drops sign-ins that were not completed
	}
	p.asked[code] = request{person, q}
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// isSkald reports whether a URL leads to the server, whichever name of this machine the browser uses.
func (p *people) isSkald(u *url.URL) bool {
	skald, err := url.Parse(p.skald)
	return err == nil && u.Scheme == skald.Scheme && u.Port() == skald.Port() &&
		slices.Contains([]string{skald.Hostname(), "localhost", "127.0.0.1", "::1"}, u.Hostname())
}

// exchange returns the ID token for a code, which can be used only once.
func (p *people) exchange(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	id, secret, _ := r.BasicAuth()
	p.mu.Lock()
	asked, known := p.asked[r.PostFormValue("code")]
	delete(p.asked, r.PostFormValue("code"))
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case id != clientID || secret != p.secret:
		answer(w, http.StatusUnauthorized, object{"error": "invalid_client"})
		return
	case !known || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
		asked.Get("redirect_uri") != r.PostFormValue("redirect_uri"):
		answer(w, http.StatusBadRequest, object{"error": "invalid_grant"})
		return
	}
	token, err := p.token(asked.person, clientID, asked.Get("nonce"))
	if err != nil {
		answer(w, http.StatusInternalServerError, object{"error": "server_error"})
		return
	}
	answer(w, http.StatusOK, object{"access_token": "unused", "token_type": "Bearer", "id_token": token})
}

// answer sends JSON.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller has disconnected, or has the response
}
