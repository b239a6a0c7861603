package letterpages

import (
	"errors"
	"io"
	"net/http"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// importPage shows the form for an import, and the result of the last one.
type importPage struct {
	Areas   []web.Tab
	Result  *client.DeadLetterImportResult
	Problem *client.Problem
	Needs   string // the permission that the visitor lacks
}

func (p *pages) importForm(v *web.Visit) (*web.Page, error) {
	if p.kit.ReadOnly {
		return nil, web.ErrNoPage
	}
	d := importPage{Areas: areas("Letters"), Needs: v.Lacks("dlq:admin", false)}
	return &web.Page{Template: "import", Title: "Import dead letters", Nav: "Dead letters", Data: d}, nil
}

// imported streams a file of any size to the API.
func (p *pages) imported(v *web.Visit) (*web.Page, error) {
	page, err := p.importForm(v)
	if err != nil {
		return nil, err
	}
	d := importPage{Areas: areas("Letters")}
	file, err := fileOf(v.Request)
	if err != nil {
		return nil, err
	}
	res, err := p.kit.Client.ImportDeadLettersWithBodyWithResponse(v.Context(), "application/x-ndjson", file)
	if err != nil {
		return nil, err
	}
	d.Result, err = web.Got(res.JSON200, res.ApplicationProblemJSONDefault)
	var refused *web.Refusal
	if errors.As(err, &refused) {
		page.Status, d.Problem, d.Result = refused.Status, &refused.Problem, refused.Import
	} else if err != nil {
		return nil, err
	}
	page.Data = d
	return page, nil
}

// fileOf returns the file in a form.
func fileOf(r *http.Request) (io.Reader, error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, web.Malformed("Choose a file.")
	}
	for {
		part, err := parts.NextPart()
		if err != nil {
			return nil, web.Malformed("Choose a file.")
		}
		if part.FormName() == "file" {
			return part, nil
		}
	}
}
