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
	client.CertificationOutcomeINCOMPLETE: {Shape: "◐", Word: "incomplete, no breaches", Tone: "wait"},
}

// verdictOf returns the badge for a certification: its verdict, or its state until there is a
// verdict.
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
	url     string      // URL of the first call
	later   bool        // the call is answered later
	Examine *web.Button // nil: the pages are read-only
	Steps   []string
	Last    *client.Certification // nil: it was never certified
	Verdict web.Badge
	Later   *client.Certification // one after Last that was left incomplete; nil: none
	// AnswersLater is the last certification for answers that come later.
	AnswersLater        *client.Certification
	VerdictAnswersLater web.Badge
}

// hostOf returns the host of a URL as named in certifications, or "" if there is none.
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

// hostsOf returns the hosts that the steps of a definition call, in order. base returns the base
// URL of a named participant.
func hostsOf(d *client.WorkflowDefinition, base func(name string) string) (all []*served) {
	for i := range d.Steps {
		st := &d.Steps[i]
		for _, call := range []*client.Call{web.ActionOf(st), web.UndoOf(st)} {
			at := ""
			switch {
			case web.CallKind(call) != "http":
			case call.HTTP.URL != nil:
				at = *call.HTTP.URL
			case call.HTTP.Participant != nil:
				at = base(*call.HTTP.Participant)
			}
			host := hostOf(at)
			known := slices.IndexFunc(all, func(s *served) bool { return s.Host == host })
			switch {
			case host == "":
			case known < 0:
				all = append(all, &served{Host: host, url: at, later: laterWait(st.Answer) != "", Steps: []string{st.Name}})
			case !slices.Contains(all[known].Steps, st.Name):
				all[known].Steps = append(all[known].Steps, st.Name)
			}
		}
	}
	return all
}

// maxHosts is the maximum number of hosts that are queried from the API at once. Each has up to
// four certifications on a page, two of which are for answers that come later.
const maxHosts = 50

// bases returns the base URLs of the named participants that a definition calls.
func (p *pages) bases(v *web.Visit, d *client.WorkflowDefinition) (map[string]string, error) {
	known := map[string]string{}
	for i := range d.Steps {
		st := &d.Steps[i]
		for _, call := range []*client.Call{web.ActionOf(st), web.UndoOf(st)} {
			if web.CallKind(call) != "http" || call.HTTP.Participant == nil || len(known) == maxHosts {
				continue
			}
			name := *call.HTTP.Participant
			if _, asked := known[name]; asked {
				continue
			}
			res, err := p.kit.Client.GetParticipantWithResponse(v.Context(), name)
			if err != nil {
				return nil, err
			}
			known[name] = "" // it was deleted, so it has no URL
			if res.JSON200 != nil {
				known[name] = res.JSON200.BaseURL
			}
		}
	}
	return known, nil
}

// servedOf returns the hosts of a definition with their last certifications, or none if there is no
// database.
func (p *pages) servedOf(v *web.Visit, d *client.WorkflowDefinition) ([]*served, error) {
	known, err := p.bases(v, d)
	if err != nil {
		return nil, err
	}
	all := hostsOf(d, func(name string) string { return known[name] })
	if all = all[:min(len(all), maxHosts)]; len(all) == 0 {
		return nil, nil
	}
	ask := &client.ListCertificationsParams{Latest: new(true), PageSize: new(int32(4 * maxHosts))}
	for _, s := range all {
		ask.Host = append(ask.Host, s.Host)
		if !p.kit.ReadOnly {
			asked := url.Values{"url": {s.url}}
			if s.later {
				asked.Set("later", "true")
			}
			s.Examine = new(v.Button("Certify", "/ui/certify?"+asked.Encode(), web.ToCertify, web.MeansCertify, web.Changes))
		}
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
			switch {
			case s.Host != c.Host:
			case c.Later != nil && *c.Later:
				s.AnswersLater, s.VerdictAnswersLater = c, verdictOf(c)
			default:
				if s.Last != nil { // the list is sorted newest first
					s.Later = s.Last
				}
				s.Last, s.Verdict = c, verdictOf(c)
			}
		}
	}
	return all, nil
}

// certificationPage shows one certification with its report.
type certificationPage struct {
	*client.Certification
	Badge    web.Badge
	Findings []breach
	Untried  []untried
	Actions  []web.Button
	// Downloads returns the formats of the report, or none without a report.
	Downloads []reportFormat
	Now       time.Time
}

// reportFormat is a format in which the API provides the report.
type reportFormat struct {
	Format       client.GetCertificationReportParamsFormat
	Name, Ending string
}

var reportFormats = []reportFormat{
	{client.GetCertificationReportParamsFormatText, "text", "txt"},
	{client.GetCertificationReportParamsFormatJSON, "JSON", "json"},
	{client.GetCertificationReportParamsFormatJunit, "JUnit", "xml"},
}

type breach struct {
	client.CertificationFinding
	Called string // the name of the rule in docs/participants.md
	Curl   string // the command lines; empty: the visitor may not see them
	Others []string
}

// untried lists the vectors that were not tried for the same reason.
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
		d.Downloads = reportFormats
		for _, f := range c.Report.Findings {
			shown := breach{CertificationFinding: f, Called: "rule " + f.Rule}
			switch {
			case f.Rule == "later":
				shown.Called = "the rule about later answers"
			case f.Rule == "" || f.Rule[0] < '0' || f.Rule[0] > '9':
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
			d.Actions = append(d.Actions, v.Button("Cancel", certificationPath(c)+"/cancel", web.ToCertify,
				meansCancel, web.Changes))
		}
	}
	return &web.Page{Template: "certification", Title: "Certification of " + c.Host, Nav: "Workflows",
		Refresh: refresh, Data: d}, nil
}

const meansCancel = "No further calls are made. Effects at the participant remain."

// certify is the form that starts a certification.
func (p *pages) certify(v *web.Visit) (*web.Action, error) {
	at, later := "", ""
	if to := v.Query("url"); to != nil {
		at = *to
	}
	if only := v.Query("later"); only != nil && *only == "true" {
		later = *only
	}
	return &web.Action{
		Label: "Certify", Title: "Certify a participant", Class: web.Changes, Needs: web.ToCertify,
		Nav: "Workflows", Back: web.Link{Name: "Workflows", URL: "/ui/workflows"}, Means: web.MeansCertify,
		Fields: []web.Field{
			{Name: "url", Label: "URL of the action; {step} stands for the step's name", Value: at, Required: true},
			{Name: "compensation_url", Label: "URL of the compensation (empty: same as the action)"},
			{Name: "effects_url", Label: "URL that returns the number of effects of a key (empty: effects are not counted)"},
			{Name: "step", Label: "Name of the step", Hint: "charge"},
			{Name: "payload", Label: "Saga payload", Kind: "json"},
			{Name: "race_seconds", Label: "Load test, in seconds", Kind: "number"},
			{Name: "later", Label: "Check only later answers", Kind: "check", Value: later},
			{Name: "later_ms", Label: "Maximum wait for the report of a later answer", Kind: "span", Hint: "30 s"},
		},
		Done: func(answer []byte) string {
			var c client.Certification
			if json.Unmarshal(answer, &c) != nil {
				return "/ui/workflows"
			}
			return certificationPath(&c)
		},
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.CertifyParticipantWithBody(ctx, &client.CertifyParticipantParams{}, web.JSON, body, edit)
		},
	}, nil
}

// cancelCertification is the form that cancels a certification.
func (p *pages) cancelCertification(v *web.Visit) (*web.Action, error) {
	c, err := p.readCertification(v)
	if err != nil {
		return nil, err
	}
	path := certificationPath(c)
	return &web.Action{
		State: web.BadgeOf(c.State).Word, Subject: c.ID.String(), DryRun: web.DryRunInQuery,
		Label: "Cancel it", Title: "Cancel the certification", Class: web.Changes, Needs: web.ToCertify,
		Nav: "Workflows", Back: web.Link{Name: "Certification of " + c.Host, URL: path}, Means: meansCancel,
		Done: func([]byte) string { return path },
		Send: func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
			return p.kit.Client.CancelCertificationWithBody(ctx, c.ID, &client.CancelCertificationParams{}, web.JSON, body, edit)
		},
	}, nil
}
