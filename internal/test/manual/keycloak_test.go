//go:build keycloak

package manual

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/patience"
	"github.com/skald-saga/skald/internal/test/testnet"
)

const (
	clientSecret = "the secret of a client in a test"
	password     = "correct horse"
	tenant       = "6f0d4d2e-7a0b-4f0e-9f57-0c8f9c1b2a3d"
)

type object = map[string]any

// realm is the configuration that docs/security.md requires: a confidential client whose ID tokens
// contain a person's groups, the client's roles, and the tenant.
func realm(redirects ...string) object {
	mapper := func(kind, claim string, config object) object {
		for name, value := range map[string]string{
			"claim.name": claim, "id.token.claim": "true", "access.token.claim": "true", "jsonType.label": "String",
		} {
			if _, given := config[name]; !given {
				config[name] = value
			}
		}
		return object{"name": claim, "protocol": "openid-connect", "protocolMapper": kind, "config": config}
	}
	person := func(name string, groups, roles []string, attributes object) object {
		return object{
			"username": name, "enabled": true, "email": name + "@skald.example", "emailVerified": true, "firstName": name,
			"lastName": "of a test", "groups": groups,
			"clientRoles": object{"skald-ui": append([]string{}, roles...)}, "attributes": attributes,
			"credentials": []object{{"type": "password", "value": password}},
		}
	}
	here := object{"tenant_id": []string{tenant}}
	return object{
		"realm": "main", "enabled": true, "sslRequired": "none",
		"roles": object{"client": object{"skald-ui": []object{{"name": "operator"}, {"name": "auditor"}}}},
		"groups": []object{
			{"name": "skald", "subGroups": []object{{"name": "admins"}, {"name": "auditors"}}}, {"name": "admin"},
		},
		"clients": []object{{
			"clientId": "skald-ui", "secret": clientSecret, "redirectUris": redirects, "directAccessGrantsEnabled": true,
			"attributes": object{"pkce.code.challenge.method": "S256"},
			"protocolMappers": []object{
				mapper("oidc-group-membership-mapper", "groups", object{"full.path": "true"}),
				mapper("oidc-usermodel-client-role-mapper", "resource_access.skald-ui.roles", object{
					"multivalued": "true", "usermodel.clientRoleMapping.clientId": "skald-ui",
				}),
				mapper("oidc-usermodel-attribute-mapper", "tenant_id", object{"user.attribute": "tenant_id"}),
				mapper("oidc-audience-mapper", "audience", object{"included.custom.audience": "skald", "id.token.claim": "false"}),
			},
		}},
		"users": []object{
			person("ada", []string{"/skald/admins", "/skald/auditors"}, nil, here),
			person("otto", []string{"/skald/auditors"}, []string{"operator", "auditor"}, here),
			person("nora", []string{"/admin"}, nil, here), // a group of another application
			person("tom", []string{"/skald/admins"}, []string{"operator"}, object{}),
		},
	}
}

// startKeycloak starts the Keycloak of scripts/keycloak.sh and returns the issuer of its realm.
// Keycloak stops when the test ends.
func startKeycloak(t *testing.T, port string, realm object) {
	t.Helper()
	home := os.Getenv("KEYCLOAK_HOME")
	if home == "" {
		t.Fatal("KEYCLOAK_HOME is not set: make test-keycloak")
	}
	text, err := json.Marshal(realm)
	if err != nil {
		t.Fatal(err)
	}
	imports := filepath.Join(home, "data", "import")
	if err := os.MkdirAll(imports, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(imports, "main.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := Background(t, filepath.Join(home, "bin", "kc.sh"), []string{
		"start", "--optimized", "--import-realm", "--http-enabled=true", "--http-host=127.0.0.1", "--http-port=" + port,
		"--hostname=http://127.0.0.1:" + port, "--http-management-host=127.0.0.1", "--cache=local",
	}, "JAVA_OPTS_KC_HEAP=-Xms64m -Xmx512m")
	patience.Until(t, "Keycloak is there", func() bool {
		select {
		case <-ended:
			t.Fatal("Keycloak has ended")
		default:
		}
		return ready(t.Context(), http.DefaultClient,
			"http://127.0.0.1:"+port+"/realms/main/.well-known/openid-configuration")
	})
}

// browser is a person's browser: it keeps cookies and knows how to reach the proxy and the identity
// provider.
type browser struct {
	*entrance
	provider *http.Client
	begun    string // the cookie of a sign-in in progress
	session  string
}

// trusting sends Secure cookies to loopback even without TLS, as browsers do.
type trusting struct{ *cookiejar.Jar }

func (j trusting) Cookies(u *url.URL) []*http.Cookie {
	return j.Jar.Cookies(&url.URL{Scheme: "https", Host: u.Host, Path: u.Path})
}

func (e *entrance) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		e.t.Fatal(err)
	}
	return &browser{entrance: e, provider: &http.Client{Jar: trusting{jar}, CheckRedirect: e.client.CheckRedirect}}
}

// begin follows "Sign in with Keycloak" and returns the provider's URL.
func (b *browser) begin() string {
	b.t.Helper()
	res, text := b.send("GET", "/ui/sign-in/oidc?next=/ui/sagas", "")
	b.want("the way to the provider", res.StatusCode == 303 && len(res.Cookies()) == 1 && res.Cookies()[0].Secure,
		res, text)
	b.begun = res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
	return res.Header.Get("Location")
}

// at sends a request to the provider and returns the response.
func (b *browser) at(to string, form url.Values) (*http.Response, string) {
	b.t.Helper()
	ask := func() (*http.Response, error) { return b.provider.Get(to) }
	if form != nil {
		ask = func() (*http.Response, error) { return b.provider.PostForm(to, form) }
	}
	res, err := ask()
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res, string(text)
}

// logIn submits a name and a password to the provider and returns the address that it redirects to.
func (b *browser) logIn(to, name string) string {
	b.t.Helper()
	res, text := b.at(to, nil)
	m := regexp.MustCompile(`<form[^>]* action="([^"]+)"`).FindStringSubmatch(text)
	b.want("the provider's page", res.StatusCode == 200 && m != nil, res, text)
	res, text = b.at(html.UnescapeString(m[1]), url.Values{"username": {name}, "password": {password}})
	b.want("the provider leads back", res.StatusCode == 302, res, text)
	return res.Header.Get("Location")
}

// back follows the provider's redirect to Skald.
func (b *browser) back(to string) (*http.Response, string) {
	b.t.Helper()
	if !strings.HasPrefix(to, b.base+"/ui/sign-in/oidc/callback?") {
		b.t.Fatalf("the provider leads back to %s", to)
	}
	res, text := b.send("GET", strings.TrimPrefix(to, b.base), "", "Cookie", b.begun)
	for _, c := range res.Cookies() {
		if c.Name == "__Host-skald" && c.Value != "" {
			b.session = c.Name + "=" + c.Value
		}
	}
	return res, text
}

// caller is how the API identifies the sender of a request.
type caller struct {
	Status        int
	Subject, Role string
	Tenant        string `json:"tenant_id"`
}

func (e *entrance) whoami(header ...string) (who caller) {
	e.t.Helper()
	res, text := e.send("GET", "/api/v1/whoami", "", append([]string{"Authorization", ""}, header...)...)
	_ = json.Unmarshal([]byte(text), &who)
	who.Status = res.StatusCode
	return who
}

// signIn signs a person in at the provider and expects a session with the role.
func (b *browser) signIn(name, role string) {
	b.t.Helper()
	res, text := b.back(b.logIn(b.begin(), name))
	b.want(name+" is signed in", res.StatusCode == 200 && strings.HasSuffix(res.Header.Get("Refresh"), "/ui/sagas"),
		res, text)
	who := b.whoami("Cookie", b.session)
	if who.Status != 200 || who.Role != role || who.Tenant != tenant || !strings.HasPrefix(who.Subject, "jwt:") {
		b.t.Fatalf("%s is %+v, want %s", name, who, role)
	}
}

// refused signs a person in at the provider and expects a page that explains why there is no
// session.
func (b *browser) refused(name, why string) {
	b.t.Helper()
	res, text := b.back(b.logIn(b.begin(), name))
	b.want(name+" is not signed in", res.StatusCode == 401 && b.session == "" &&
		strings.Contains(html.UnescapeString(text), why), res, text)
}

// token requests a person's tokens from the provider, as a program does.
func (b *browser) token(issuer, name string) (access, id string) {
	b.t.Helper()
	res, text := b.at(issuer+"/protocol/openid-connect/token", url.Values{
		"grant_type": {"password"}, "client_id": {"skald-ui"}, "client_secret": {clientSecret}, "scope": {"openid"},
		"username": {name}, "password": {password},
	})
	var tokens struct {
		Access string `json:"access_token"`
		ID     string `json:"id_token"`
	}
	b.want("tokens", res.StatusCode == 200 && json.Unmarshal([]byte(text), &tokens) == nil, res, text)
	return tokens.Access, tokens.ID
}

// TestKeycloak: people sign in at a real Keycloak through a proxy with TLS, once below a path with
// groups that a setting maps to roles, and once on a host of its own with the client's roles
// unchanged.
func TestKeycloak(t *testing.T) {
	certificates := exampleCertificates(t)
	address := testnet.FreeAddress(t)
	issuer, port := "http://"+address+"/realms/main", strings.TrimPrefix(address, "127.0.0.1:")
	key := "skald_abcdefgh_" + base64.RawURLEncoding.EncodeToString(randomBytes(t, 32))
	given := []string{
		"SKALD_BOOTSTRAP_ADMIN_KEY=" + key, "SKALD_AUTH_JWT_ISSUER=" + issuer, "SKALD_AUTH_OIDC_CLIENT_ID=skald-ui",
		"SKALD_AUTH_OIDC_CLIENT_SECRET=" + clientSecret, "SKALD_AUTH_OIDC_NAME=Keycloak",
		"SKALD_SERVER_MAX_CONNECTIONS_PER_ADDRESS=0",
	}
	mapped := append([]string{
		"SKALD_SERVER_BASE_PATH=/skald", "SKALD_AUTH_JWT_ROLE_CLAIM=groups",
		"SKALD_AUTH_JWT_ROLE_MAP=/skald/admins=admin,/skald/auditors=auditor",
	}, given...)
	nginx := &proxies[0]
	// The servers start before the identity provider.
	groups := nginx.enter(t, Serve(t, mapped...), certificates, 1, "")
	roles := nginx.enter(t, Serve(t, append([]string{
		"SKALD_AUTH_JWT_ROLE_CLAIM=resource_access.skald-ui.roles",
	}, given...)...), certificates, 0, "")
	down := func(t *testing.T, e *entrance) {
		t.Helper()
		res, text := e.send("GET", "/ui/sign-in/oidc?next=/ui/sagas", "")
		e.want("the provider is down", res.StatusCode == 503 && strings.Contains(text, issuer), res, text)
		res, text = e.send("POST", "/ui/sign-in", url.Values{"credential": {key}}.Encode(), "Origin", published,
			"Content-Type", "application/x-www-form-urlencoded")
		e.want("a key still signs a person in", res.StatusCode == 303, res, text)
	}
	down(t, groups)

	otto := groups.browser()
	var access, pending string
	up := t.Run("while it is there", func(t *testing.T) {
		callback := "/ui/sign-in/oidc/callback"
		startKeycloak(t, port, realm(published+callback, published+"/skald"+callback))
		groups, roles := *groups, *roles
		groups.t, roles.t = t, t
		otto.entrance = &groups

		ada := groups.browser()
		ada.signIn("ada", "admin") // the more powerful of her two roles
		otto.signIn("otto", "auditor")
		roles.browser().signIn("otto", "operator")
		groups.browser().refused("nora", "gives you no role here: the claim groups")
		roles.browser().refused("nora", "gives you no role here: the claim resource_access.skald-ui.roles")
		groups.browser().refused("tom", "is not accepted here")

		// The role is enforced: an auditor can't change anything.
		res, text := groups.send("POST", "/api/v1/workflows", `{"name": "w", "steps": []}`, "Authorization", "",
			"Cookie", otto.session, "Origin", published)
		groups.want("an auditor registers nothing", res.StatusCode == 403, res, text)

		// A sign-in response can be used only once, and only by the browser that began the sign-in.
		to := ada.begin()
		answer := ada.redirected(to) // Keycloak remembers her
		other := groups.browser()
		other.begin()
		res, text = other.back(answer)
		groups.want("the answer to another browser", res.StatusCode == 401 && other.session == "", res, text)
		res, text = ada.back(answer)
		groups.want("her answer", res.StatusCode == 200, res, text)
		first := ada.session
		res, text = ada.back(answer)
		groups.want("the same answer once more", res.StatusCode == 401 && ada.session == first, res, text)

		// Signing out ends the session in Skald. Keycloak still remembers her and signs her in
		// again without a password.
		res, text = groups.send("POST", "/ui/sign-out", "", "Cookie", ada.session, "Origin", published,
			"Content-Type", "application/x-www-form-urlencoded")
		groups.want("signing out", res.StatusCode == 303 && res.Header.Get("Location") == "/skald/ui/sign-in", res, text)
		if who := groups.whoami("Cookie", ada.session); who.Status != 401 {
			t.Errorf("after signing out she is %+v", who)
		}
		res, text = ada.back(ada.redirected(ada.begin()))
		groups.want("again", res.StatusCode == 200 && ada.session != first, res, text)

		// Programs send access tokens; an ID token is only for the pages.
		var id string
		access, id = ada.token(issuer, "ada")
		if who := groups.whoami("Authorization", "Bearer "+access); who.Role != "admin" || who.Tenant != tenant {
			t.Errorf("with an access token she is %+v", who)
		}
		if who := groups.whoami("Authorization", "Bearer "+id); who.Status != 401 {
			t.Errorf("with an ID token she is %+v", who)
		}
		nora, _ := ada.token(issuer, "nora")
		if who := groups.whoami("Authorization", "Bearer "+nora); who.Status != 200 || who.Role != "" {
			t.Errorf("without a role she is %+v", who)
		}
		pending = ada.redirected(ada.begin())
		otto.begun = ada.begun
	})
	if !up {
		return
	}
	// The provider went down while a person was signing in. Existing sessions continue to work.
	otto.entrance = groups
	session := otto.session
	res, text := otto.back(pending)
	groups.want("back from a provider that is down", res.StatusCode == 503 && otto.session == session &&
		strings.Contains(text, issuer), res, text)
	if who := groups.whoami("Cookie", otto.session); who.Role != "auditor" {
		t.Errorf("while the provider is down he is %+v", who)
	}
	if who := groups.whoami("Authorization", "Bearer "+access); who.Role != "admin" {
		t.Errorf("while the provider is down she is %+v", who)
	}
	down(t, nginx.enter(t, Serve(t, mapped...), certificates, 1, ""))
}

// redirected follows the provider's redirect for a person whom the provider remembers.
func (b *browser) redirected(to string) string {
	b.t.Helper()
	res, text := b.at(to, nil)
	b.want("the provider knows the person", res.StatusCode == 302, res, text)
	return res.Header.Get("Location")
}
