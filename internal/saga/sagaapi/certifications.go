package sagaapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/audit/operator"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/idempotency"
	"github.com/skald-saga/skald/internal/saga/certification"
)

// CertifyParticipant stores the request to certify a participant. A node executes it.
func (s *Handlers) CertifyParticipant(
	ctx context.Context, in api.CertifyParticipantRequestObject,
) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	c := s.newCertification(ctx, in.Params.IdempotencyKey, in.Body.Reason)
	c.Asked = certification.Asked{
		URL: in.Body.URL, Compensation: httpkit.Text(in.Body.CompensationURL), Effects: httpkit.Text(in.Body.EffectsURL),
		Step: httpkit.Text(in.Body.Step), Payload: in.Body.Payload,
	}
	for _, n := range []struct{ from, at *int }{
		{in.Body.RaceSeconds, &c.RaceSeconds}, {in.Body.TimeoutMS, &c.TimeoutMS}, {in.Body.LaterMS, &c.LaterMS},
	} {
		if n.from != nil {
			*n.at = *n.from
		}
	}
	c.Later = in.Body.Later != nil && *in.Body.Later
	refused := s.CheckParticipant
	if refused == nil {
		refused = func(string) string { return "" }
	}
	if err := c.Check(refused, s.Callbacks.Served); err != nil {
		return nil, err
	}
	c.Host = certification.HostOf(c.URL)
	a, err := s.createCertification(ctx, c, map[string]any{"host": c.Host})
	if err != nil {
		return nil, err
	}
	if s.Certified != nil {
		s.Certified()
	}
	a.Status = http.StatusAccepted
	return a, nil
}

// ReportCertification stores the report of a certification that was run elsewhere.
func (s *Handlers) ReportCertification(
	ctx context.Context, in api.ReportCertificationRequestObject,
) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	doc, err := json.Marshal(in.Body.Report)
	if err != nil {
		return nil, err
	}
	var report certification.Report
	if err := json.Unmarshal(doc, &report); err != nil {
		return nil, certification.NoReport("/report/findings")
	}
	if err := report.CheckReport(); err != nil {
		return nil, err
	}
	report.Finish()
	c := s.newCertification(ctx, in.Params.IdempotencyKey, in.Body.Reason)
	c.URL, c.Host, c.Later = report.URL, certification.HostOf(report.URL), report.Later
	if err := c.Done(report, nil, c.CreatedAt); err != nil {
		return nil, err
	}
	a, err := s.createCertification(ctx, c, map[string]any{"host": c.Host, "verdict": c.Verdict})
	a.Status = http.StatusCreated
	return a, err
}

func (s *Handlers) newCertification(ctx context.Context, header *string, reason *string) certification.Certification {
	req := httpkit.RequestOf(ctx)
	key := httpkit.KeyOf(req, header)
	c := certification.Certification{
		ID: s.idOfKey("certifications", req, key), TenantID: req.Tenant.ID, Version: 1, State: certification.Pending,
		Reason: httpkit.Text(reason), Actor: req.Principal, ActorName: req.Who.Name, CreatedAt: s.Now(),
	}
	if key != nil {
		c.RequestHash = key.Hash
	}
	return c
}

func (s *Handlers) createCertification(
	ctx context.Context, c certification.Certification, detail map[string]any,
) (a httpkit.Answer, err error) {
	by := s.Did(ctx, c.CreatedAt, operator.Certification, c.ID.String(), httpkit.VerbCreate, c.Reason, detail)
	stored, created, err := s.Certifications.Create(ctx, c, by)
	if err != nil {
		return a, err
	}
	if !created && !stored.Repeats(c.RequestHash) {
		return a, idempotency.Used()
	}
	a, err = certificationAnswer(&stored)
	a.Location, a.Replayed = certificationPath(stored.ID), !created
	return a, err
}

// GetCertification returns a certification with its report.
func (s *Handlers) GetCertification(ctx context.Context, in api.GetCertificationRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	c, err := s.Certifications.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.CertificationID)
	if err != nil {
		return nil, err
	}
	return certificationAnswer(&c)
}

// GetCertificationReport returns the report of a certification in the format that the command line
// writes.
func (s *Handlers) GetCertificationReport(
	ctx context.Context, in api.GetCertificationReportRequestObject,
) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	c, err := s.Certifications.Get(ctx, httpkit.RequestOf(ctx).Tenant.ID, in.CertificationID)
	if err != nil {
		return nil, err
	}
	report, err := c.Reported()
	if err != nil {
		return nil, err
	}
	a := certificationReport{report, reportFormats[httpkit.Preferred(httpkit.Text(in.Params.Accept), reportMedia...)]}
	if in.Params.Format != nil {
		a.format = certification.Format(*in.Params.Format)
	}
	return a, nil
}

// reportMedia are the media types of reports, with the default first.
var reportMedia = []string{httpkit.MediaJSON, httpkit.MediaText, httpkit.MediaXML}

var reportFormats = map[string]certification.Format{
	httpkit.MediaJSON: certification.JSON, httpkit.MediaText: certification.Text, httpkit.MediaXML: certification.JUnit,
}

// certificationReport is the response that contains a report.
type certificationReport struct {
	report certification.Report
	format certification.Format
}

// Write implements api.Response.
func (a certificationReport) Write(w http.ResponseWriter) error {
	text, err := a.report.In(a.format)
	if err != nil {
		return err
	}
	out := httpkit.Answer{Status: http.StatusOK, Raw: text}
	for media, format := range reportFormats {
		if format == a.format {
			out.Media = media + "; charset=utf-8"
		}
	}
	return out.Write(w)
}

// Redacted returns the report without the calls and the participant's answers.
func (a certificationReport) Redacted(by httpkit.Redactor) (api.Response, bool) {
	covered, ok := by.Redact(a.report)
	a.report, _ = covered.(certification.Report)
	return a, ok
}

// ListCertifications returns a page of certifications, newest first.
func (s *Handlers) ListCertifications(
	ctx context.Context, in api.ListCertificationsRequestObject,
) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	p := in.Params
	asked, err := httpkit.PageOf(ctx, s.Cursors, httpkit.ByTime, p.Page, p.PageSize, p.Cursor, p.Include)
	if err != nil {
		return nil, err
	}
	f := certification.Filter{Hosts: p.Host, Latest: p.Latest != nil && *p.Latest}
	if p.State != nil {
		f.State = certification.State(*p.State)
	}
	found, err := s.Certifications.List(ctx, httpkit.RequestOf(ctx).Tenant.ID, f, asked.Request)
	if err != nil {
		return nil, err
	}
	out := api.CertificationList{Certifications: make([]api.Certification, len(found.Items)),
		Pagination: httpkit.Pagination(asked, found, (*certification.Certification).Place)}
	for i := range found.Items {
		if out.Certifications[i], err = toAPICertification(&found.Items[i]); err != nil {
			return nil, err
		}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out}, nil
}

// CancelCertification cancels a certification.
func (s *Handlers) CancelCertification(
	ctx context.Context, in api.CancelCertificationRequestObject,
) (api.Response, error) {
	ctx, cancel := s.Promised(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	if httpkit.DryRun(ctx) {
		before, err := s.Certifications.Get(ctx, tenant, in.CertificationID)
		if err != nil {
			return nil, err
		}
		after := before
		if err := after.Canceled(s.Now()); err != nil {
			return nil, err
		}
		return certificationWould(&before, &after)
	}
	by := s.Did(ctx, s.Now(), operator.Certification, in.CertificationID.String(), httpkit.VerbCancel,
		httpkit.Text(httpkit.ReasonOf(in.Body)), nil)
	c, err := s.Certifications.Cancel(ctx, tenant, in.CertificationID, by)
	if err != nil {
		return nil, err
	}
	return certificationAnswer(&c)
}

func certificationPath(id uuid.UUID) string {
	return "/api/v1/participants/certifications/" + id.String()
}

func certificationAnswer(c *certification.Certification) (httpkit.Answer, error) {
	out, err := toAPICertification(c)
	return httpkit.Answer{Status: http.StatusOK, Body: out, ETag: httpkit.ETagOf(c.Version)}, err
}

// certificationWould answers a dry run with the certification as it would be.
func certificationWould(before, after *certification.Certification) (httpkit.Answer, error) {
	a, err := certificationAnswer(before)
	if err != nil {
		return a, err
	}
	out, err := toAPICertification(after)
	if err != nil {
		return a, err
	}
	return httpkit.Would(a, out, func(c *api.Certification) **api.PlannedChanges { return &c.Changes })
}

func toAPICertification(c *certification.Certification) (api.Certification, error) {
	out := api.Certification{
		ID: c.ID, URL: c.URL, CompensationURL: httpkit.UnlessEmpty(c.Asked.Compensation),
		EffectsURL: httpkit.UnlessEmpty(c.Effects), Host: c.Host, Step: httpkit.UnlessEmpty(c.Step),
		Payload: c.Payload, State: api.CertificationState(c.State),
		Played: c.Played, Planned: c.Planned, Verdict: httpkit.EnumUnlessEmpty[api.CertificationOutcome](string(c.Verdict)),
		Findings: c.Findings, Warnings: c.Warnings, NotTried: c.NotTried, SkaldVersion: httpkit.UnlessEmpty(c.Examiner),
		ErrorMessage: httpkit.UnlessEmpty(c.Error), ReportUnreadable: mark(c.Unreadable),
		Reason: httpkit.UnlessEmpty(c.Reason), Actor: httpkit.UnlessEmpty(c.Actor),
		ActorName: httpkit.UnlessEmpty(c.ActorName), Version: c.Version,
		CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, EndedAt: c.EndedAt,
		AllowedActions: httpkit.Each(c.Actions(), func(v *certification.Verb) api.CertificationVerb {
			return api.CertificationVerb(*v)
		}),
		Links: api.JobLinks{"self": certificationPath(c.ID)}, Later: mark(c.Later),
	}
	for _, n := range []struct {
		of int
		at **int
	}{{c.RaceSeconds, &out.RaceSeconds}, {c.TimeoutMS, &out.TimeoutMS}, {c.Attempt, &out.Attempt},
		{c.LaterMS, &out.LaterMS}} {
		if n.of > 0 {
			*n.at = new(n.of)
		}
	}
	if c.Report == nil {
		return out, nil
	}
	return out, json.Unmarshal(c.Report, &out.Report)
}
