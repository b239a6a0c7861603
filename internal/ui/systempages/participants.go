package systempages

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// participantList is the page that lists the named participants.
type participantList struct {
	*web.List
	Participants []client.Participant
	Curl         string
}

var participantViews = []web.View{
	{Name: "All"},
	{Name: "Held", Filter: url.Values{"state": {"HELD"}}},
	{Name: "Being released", Filter: url.Values{"state": {"RELEASING"}}},
}

func (p *pages) participants(v *web.Visit) (*web.Page, error) {
	l, list, err := web.ListPage[client.ParticipantList](v, participantViews, nil, p.kit.Client.ListParticipants,
		"page_size", "100", "include", "total")
	if err != nil {
		return nil, err
	}
	d := participantList{List: l, Participants: list.Participants}
	d.Curl = web.Curl(v.Request, p.kit.Base, "PUT", "/api/v1/participants/card",
		[]byte(`{"base_url": "https://card.example/v1"}`))
	return &web.Page{Template: "participants", Title: "Participants", Nav: "Participants", Refresh: 5, Data: d}, nil
}

// participantPage shows one participant with the figures of its last hour.
type participantPage struct {
	*client.Participant
	Codes   []codeCount // most frequent first
	Actions []web.Button
	Now     time.Time
}

type codeCount struct {
	Code  string
	Calls int64
}

// HeldAbove returns the share of failures above which the participant is held.
func (d *participantPage) HeldAbove() string {
	if d.Outage.FailureRatio == nil {
		return ""
	}
	return strconv.FormatFloat(100**d.Outage.FailureRatio, 'f', -1, 64) + " %"
}

// Failures returns the percentage of the last hour's calls that failed. There must have been calls.
func (d *participantPage) Failures() int64 { return 100 * d.LastHour.Failed / d.LastHour.Calls }

// participantOf reads the participant in the URL, with its ETag.
func (p *pages) participantOf(v *web.Visit) (*client.Participant, string, error) {
	res, err := p.kit.Client.GetParticipantWithResponse(v.Context(), v.PathValue("participant"))
	if err != nil {
		return nil, "", err
	}
	one, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	return one, res.HTTPResponse.Header.Get("ETag"), err
}

func (p *pages) participant(v *web.Visit) (*web.Page, error) {
	one, _, err := p.participantOf(v)
	if err != nil {
		return nil, err
	}
	d := &participantPage{Participant: one, Now: v.Now}
	for code, n := range one.LastHour.ByCode {
		d.Codes = append(d.Codes, codeCount{code, n})
	}
	slices.SortFunc(d.Codes, func(a, b codeCount) int { return int(b.Calls - a.Calls) })
	if !p.kit.ReadOnly {
		at := participantPath(one.Name)
		if one.HeldBy == nil {
			d.Actions = []web.Button{v.Button("Hold", at+"/hold", webhookAdmin, meansHold, web.Changes)}
		}
		if one.State != client.ParticipantStateOPEN {
			d.Actions = append([]web.Button{v.Button("Release", at+"/release", webhookAdmin, meansRelease, web.Changes)},
				d.Actions...)
		}
		d.Actions = append(d.Actions, v.Button("Certify", "/ui/certify?"+url.Values{"url": {one.BaseURL}}.Encode(),
			web.ToCertify, web.MeansCertify, web.Changes))
	}
	return &web.Page{Template: "participant", Title: one.Name, Nav: "Participants", Refresh: 2, Data: d}, nil
}

const (
	meansHold    = "No calls are sent to it until someone releases it. Its sagas wait without using up attempts."
	meansRelease = "Waiting sagas are released: a few at first, then more with each successful second."
)

func participantPath(name string) string { return "/ui/participants/" + url.PathEscape(name) }

// onParticipant is the form for an action on the participant in the URL.
func (p *pages) onParticipant(v *web.Visit, label, means string) (*web.Action, *client.Participant, error) {
	one, etag, err := p.participantOf(v)
	if err != nil {
		return nil, nil, err
	}
	at := participantPath(one.Name)
	return &web.Action{
		Label: label, Title: label + " " + one.Name, Nav: "Participants", Back: web.Link{Name: one.Name, URL: at},
		Needs: webhookAdmin, Means: means, ETag: etag, Subject: one.Name, State: string(one.State),
		Class: web.Changes, DryRun: web.DryRunInQuery, Done: func([]byte) string { return at },
	}, one, nil
}

func (p *pages) holdParticipant(v *web.Visit) (*web.Action, error) {
	a, one, err := p.onParticipant(v, "Hold", meansHold)
	if err != nil {
		return nil, err
	}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.HoldParticipantWithBody(ctx, one.Name, &client.HoldParticipantParams{}, web.JSON, body, edit)
	}
	return a, nil
}

func (p *pages) releaseParticipant(v *web.Visit) (*web.Action, error) {
	a, one, err := p.onParticipant(v, "Release", meansRelease)
	if err != nil {
		return nil, err
	}
	a.Fields = []web.Field{{Name: "rate", Label: "Initial calls per second (empty: from its settings)", Kind: "number"}}
	a.Send = func(ctx context.Context, body io.Reader, edit client.RequestEditorFn) (*http.Response, error) {
		return p.kit.Client.ReleaseParticipantWithBody(ctx, one.Name, &client.ReleaseParticipantParams{}, web.JSON, body,
			edit)
	}
	return a, nil
}

// registerParticipants adds the pages of participants.
func (p *pages) registerParticipants() {
	k, one := p.kit, "/ui/participants/{participant}"
	k.Page("GET /ui/participants", p.participants)
	k.Page("GET "+one, p.participant)
	k.Action(one+"/hold", p.holdParticipant)
	k.Action(one+"/release", p.releaseParticipant)
}
