package workflowpages

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// verdicts of certifications, with a badge each.
var verdicts = map[client.CertificationOutcome]web.Badge{
	client.CertificationOutcomeCERTIFIED:  {Shape: "✓", Word: "certified", Tone: "done"},
	client.CertificationOutcomeBREACHES:   {Shape: "▲", Word: "breaches found", Tone: "bad"},
	client.CertificationOutcomeINCOMPLETE: {Shape: "◐", Word: "no breach, not all tried", Tone: "wait"},
}

// verdictOf is how a certification is shown: its verdict, or its state while there is none.
func verdictOf(c *client.Certification) web.Badge {
	if c.Verdict == nil {
		return web.BadgeOf(c.State)
	}
	if b, known := verdicts[*c.Verdict]; known {
		return b
	}
	return web.BadgeOf(*c.Verdict)
}

// served is a host that steps of a workflow call, with its last certification.
type served struct {
	Host    string
	Steps   []string
	Last    *client.Certification // nil: it was never certified
	Verdict web.Badge
}

// hostOf is the host of a URL as certifications have it; "" for none.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	host := strings.ToLower(u.Host)
	if u.Port() == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		host = strings.TrimSuffix(host, ":"+u.Port())
	}
	return host
}

// hostsOf are the hosts that the steps of a definition call, in their order.
func hostsOf(d *client.WorkflowDefinition) (all []*served) {
	for i := range d.Steps {
		st := &d.Steps[i]
		for _, call := range []*client.Call{web.ActionOf(st), web.UndoOf(st)} {
			if web.CallKind(call) != "http" || call.HTTP.URL == nil { // a participant with a name has a page of its own
				continue
			}
			host := hostOf(*call.HTTP.URL)
			at := slices.IndexFunc(all, func(s *served) bool { return s.Host == host })
			switch {
			case host == "":
			case at < 0:
				all = append(all, &served{Host: host, Steps: []string{st.Name}})
			case !slices.Contains(all[at].Steps, st.Name):
				all[at].Steps = append(all[at].Steps, st.Name)
			}
		}
	}
	return all
}

// maxHosts is how many hosts the API is asked about at once.
const maxHosts = 100

// servedOf are the hosts of a definition with their last certifications; none if there is no database.
func (p *pages) servedOf(v *web.Visit, d *client.WorkflowDefinition) ([]*served, error) {
	all := hostsOf(d)
	if all = all[:min(len(all), maxHosts)]; len(all) == 0 {
		return nil, nil
	}
	ask := &client.ListCertificationsParams{Latest: new(true), PageSize: new(int32(maxHosts))}
	for _, s := range all {
		ask.Host = append(ask.Host, s.Host)
	}
	res, err := p.kit.Client.ListCertificationsWithResponse(v.Context(), ask)
	if err != nil {
		return nil, err
	}
	if res.StatusCode() == http.StatusServiceUnavailable {
		return nil, nil
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	for i := range list.Certifications {
		c := &list.Certifications[i]
		for _, s := range all {
			if s.Host == c.Host {
				s.Last, s.Verdict = c, verdictOf(c)
			}
		}
	}
	return all, nil
}

// certificationPage is one certification with its report.
type certificationPage struct {
	*client.Certification
	Badge    web.Badge
	Findings []breach
	Untried  []untried
	Actions  []web.Button
	Now      time.Time
}

type breach struct {
	client.CertificationFinding
	Called string // what docs/participants.md calls the rule
	Curl   string // the lines; empty: the visitor may not see them
	Others []string
}

// untried are vectors that were not tried for one reason.
type untried struct {
	Reason  string
	Vectors []string
}

func (p *pages) readCertification(v *web.Visit) (*client.Certification, error) {
	id, err := v.ID("certification")
	if err != nil {
		return nil, err
	}
	res, err := p.kit.Client.GetCertificationWithResponse(v.Context(), id)
	if err != nil {
		return nil, err
	}
	return web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
}

func certificationPath(c *client.Certification) string { return "/ui/certifications/" + c.ID.String() }

func (p *pages) certification(v *web.Visit) (*web.Page, error) {
	c, err := p.readCertification(v)
	if err != nil {
		return nil, err
	}
	d := certificationPage{Certification: c, Badge: verdictOf(c), Now: v.Now}
	if c.Report != nil {
		for _, f := range c.Report.Findings {
			shown := breach{CertificationFinding: f, Called: "rule " + f.Rule}
			if f.Rule == "" || f.Rule[0] < '0' || f.Rule[0] > '9' {
				shown.Called = "the rule about the " + f.Rule
			}
			var lines []string
			if json.Unmarshal(f.Curl, &lines) == nil {
				shown.Curl = strings.Join(lines, "\n")
			}
			shown.Others = slices.DeleteFunc(slices.Clone(f.Vectors), func(name string) bool { return name == f.Vector })
			d.Findings = append(d.Findings, shown)
		}
		for _, u := range c.Report.NotTried {
			at := slices.IndexFunc(d.Untried, func(other untried) bool { return other.Reason == u.Reason })
			if at < 0 {
				at, d.Untried = len(d.Untried), append(d.Untried, untried{Reason: u.Reason})
			}
			d.Untried[at].Vectors = append(d.Untried[at].Vectors, u.Vector)
		}
	}
	refresh := 0
	if c.EndedAt == nil {
		refresh = 1
		if !p.kit.ReadOnly {
			d.Actions = append(d.Actions, v.Button("Cancel", certificationPath(c)+"/cancel", "workflows:admin",
				meansCancel, web.Changes))
		}
	}
	return &web.Page{Template: "certification", Title: "Certification of " + c.Host, Nav: "Workflows",
		Refresh: refresh, Data: d}, nil
}

const meansCancel = "No further calls are made. What was done at the participant stays."

// cancelCertification is the form that cancels a certification.
func (p *pages) cancelCertification(v *web.Visit) (*web.Action, error) {
	c, err := p.readCertification(v)
	if err != nil {
		return nil, err
	}
	path := certificationPath(c)
	return &web.Action{
		State: web.BadgeOf(c.State).Word, Subject: c.ID.String(), DryRun: web.DryRunInQuery,
		Label: "Cancel it", Title: "Cancel the certification", Class: web.Changes, Needs: "workflows:admin",
		Nav: "Workflows", Back: web.Link{Name: "Certification of " + c.Host, URL: path}, Means: meansCancel,
		Done: func([]byte) string { return path },
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.CancelCertificationWithBody(ctx, c.ID, &client.CancelCertificationParams{}, web.JSON, body, edit)
		},
	}, nil
}
