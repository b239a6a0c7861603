package letterpages

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// carried is the content of a letter: either the original or a revision.
type carried struct {
	Shown   int // number of the revision; 0: the original
	Content content
	View    string // json, text or hex
	Views   []web.Tab
	Key     *header
	Headers []header
	sent    []client.DeadLetterHeader // the same headers as returned by the API
}

// letterOf reads the letter in the URL. A malformed id is treated as not found.
func (p *pages) letterOf(v *web.Visit) (*client.DeadLetter, *client.GetDeadLetterResponse, error) {
	id, err := v.ID("letter")
	if err != nil {
		return nil, nil, err
	}
	res, err := p.kit.Client.GetDeadLetterWithResponse(v.Context(), id, &client.GetDeadLetterParams{
		Include: []client.GetDeadLetterParamsInclude{"raw", "attempts", "lineage"},
	})
	if err != nil {
		return nil, nil, err
	}
	l, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	return l, res, err
}

func (p *pages) revisionsOf(v *web.Visit, id uuid.UUID) ([]client.DeadLetterRevision, error) {
	res, err := p.kit.Client.ListDeadLetterRevisionsWithResponse(v.Context(), id)
	if err != nil {
		return nil, err
	}
	list, err := web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	if err != nil {
		return nil, err
	}
	return list.Revisions, nil
}

// sentBy returns a revision with everything that a retry sends: parts that the edit did not change
// are taken from the original.
func sentBy(l *client.DeadLetter, r client.DeadLetterRevision) client.DeadLetterRevision {
	if r.PayloadEncoding == nil && r.Payload == nil && r.PayloadBase64 == nil {
		r.Payload, r.PayloadBase64, r.PayloadEncoding = l.Payload, l.PayloadBase64, l.PayloadEncoding
	}
	if r.Key == nil && r.KeyBase64 == nil {
		r.Key, r.KeyBase64 = l.Key, l.KeyBase64
	}
	if r.Headers == nil {
		r.Headers = l.Headers
	}
	return r
}

// carriedBy reads the content of the revision in the URL, or of the latest one if the URL names
// none.
func carriedBy(v *web.Visit, l *client.DeadLetter, revisions []client.DeadLetterRevision) (d carried, err error) {
	q := v.URL.Query()
	d.Shown = len(revisions)
	if asked := q.Get("rev"); asked != "" {
		n, err := strconv.Atoi(asked)
		if err != nil || n < 0 || n > len(revisions) {
			return d, web.ErrNoPage
		}
		d.Shown = n
	}
	r := client.DeadLetterRevision{}
	if d.Shown > 0 {
		r = revisions[d.Shown-1]
	}
	r = sentBy(l, r)
	d.Content = contentOf(r.Payload, r.PayloadBase64, r.PayloadEncoding)
	d.Key, d.Headers = keyOf(r.Key, r.KeyBase64), headersOf(r.Headers)
	d.sent = r.Headers
	d.View = q.Get("view")
	possible := []string{"hex"}
	switch d.Content.Encoding {
	case "json":
		possible = []string{"json", "text", "hex"}
	case "text":
		possible = []string{"text", "hex"}
	}
	if !slices.Contains(possible, d.View) {
		d.View = possible[0]
	}
	rev := "&rev=" + strconv.Itoa(d.Shown)
	for _, name := range possible {
		d.Views = append(d.Views, web.Tab{
			Name: map[string]string{"json": "JSON", "text": "Text", "hex": "Bytes"}[name],
			URL:  "?view=" + name + rev, Current: name == d.View,
		})
	}
	if d.View == "hex" {
		from, _ := strconv.Atoi(q.Get("from")) // any other value means the beginning
		d.Content.hex(from)
	}
	return d, nil
}

// carriedOf reads a letter and its content.
func (p *pages) carriedOf(
	v *web.Visit,
) (l *client.DeadLetter, res *client.GetDeadLetterResponse, d carried, err error) {
	if l, res, err = p.letterOf(v); err != nil {
		return nil, nil, d, err
	}
	revisions, err := p.revisionsOf(v, l.ID)
	if err != nil {
		return nil, nil, d, err
	}
	d, err = carriedBy(v, l, revisions)
	return l, res, d, err
}

// download sends the bytes of a payload unchanged.
func (p *pages) download(v *web.Visit) (*web.Page, error) {
	l, _, d, err := p.carriedOf(v)
	if err != nil {
		return nil, err
	}
	if d.Content.Hidden || d.Content.Encoding == "" {
		return nil, &web.Refusal{Problem: client.Problem{
			Status: http.StatusNotFound, Code: "REQ_NOT_FOUND", Title: "No content",
			Detail: "The letter has no payload, or you lack permission to see it (payloads:read).",
		}}
	}
	name := l.ID.String()
	if d.Shown > 0 {
		name += "-revision-" + strconv.Itoa(d.Shown)
	}
	extension := map[string]string{"json": ".json", "text": ".txt"}[d.Content.Encoding]
	if extension == "" {
		extension = ".bin"
	}
	return &web.Page{Data: web.File{Name: name + extension, Content: d.Content.Bytes}}, nil
}
