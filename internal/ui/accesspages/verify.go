package accesspages

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// verification is one step of checking a chain.
type verification struct {
	*web.List
	Parts  []web.Tab
	Result *client.AuditVerification
	From   int64     // first seal that was checked
	Seal   int64     // seal that the visitor has kept elsewhere; 0: none
	Since  *verified // the earlier check that this one continues; nil: none
	Next   string    // URL of the next step; empty: this was the last one
	Again  string    // URL of a check that starts at the first seal
}

// Covered describes what was checked if the check found nothing wrong.
func (d *verification) Covered() string {
	said := fmt.Sprintf("%s checked, from seal %s.", seals(d.Result.CheckedSeals), web.Count(d.From))
	switch n := d.Result.CheckedSeals; {
	case d.Seal > 0 && n == 0:
		said = fmt.Sprintf("Seal %s is the one you kept.", web.Count(d.Seal))
	case d.Seal > 0:
		continues := "continues"
		if n > 1 {
			continues = "continue"
		}
		said = fmt.Sprintf("Seal %s is the one you kept, and %s after it %s the chain.", web.Count(d.Seal), seals(n), continues)
	case d.Since != nil:
		said = fmt.Sprintf("Everything up to seal %s was verified %s; ", web.Count(d.Since.Seq), web.Ago(d.Now, d.Since.At))
		switch n {
		case 0:
			said += "no seal has been added since."
		case 1:
			said += "1 seal has been added since and is correct."
		default:
			said += seals(n) + " have been added since and are correct."
		}
	}
	if d.Next != "" {
		return said + " There are more."
	}
	return said + " This is the end of the chain."
}

func seals(n int) string {
	if n == 1 {
		return "1 seal"
	}
	return web.Count(n) + " seals"
}

// verified is the position up to which a chain has been verified.
type verified struct {
	Seq  int64
	Hash string
	At   time.Time
}

// mark returns the seal in the form used by the API and by people.
func (v *verified) mark() string { return fmt.Sprintf("%d:%s", v.Seq, v.Hash) }

// progress stores, for each chain, the last seal up to which this process has verified the whole
// chain. A visit then checks only what follows, because checking everything takes seconds.
type progress struct {
	mu   sync.Mutex
	upTo map[string]verified // guarded by mu
}

// mostChains limits the number of stored positions. If a position is dropped, the next visitor must
// wait for a check of the whole chain.
const mostChains = 1000

func (p *progress) of(chain string) *verified {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok := p.upTo[chain]; ok {
		return &v
	}
	return nil
}

// advance records a check that began at a seal and found nothing wrong.
func (p *progress) advance(chain string, from int64, to verified) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.upTo[chain]
	if from > known.Seq+1 || ok && to.Seq < known.Seq {
		return
	}
	if p.upTo == nil || len(p.upTo) >= mostChains {
		p.upTo = map[string]verified{}
	}
	p.upTo[chain] = to
}

func (p *progress) forget(chain string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.upTo, chain)
}

var verifyFilters = []web.Filter{
	{Name: "trail", Label: "Trail", Options: []web.Option{
		{Value: "events", Label: "saga events"}, {Value: "actions", Label: "actions"},
	}},
	{Name: "kept", Label: "Seal you kept", Hint: "1204:9f86d0…"},
	{Name: "from_seq", Label: "From seal", Hint: "1"},
}

func (p *pages) verify(v *web.Visit) (*web.Page, error) {
	d := verification{List: v.NewList(nil, verifyFilters), Parts: auditTabs("Verify"), From: 1}
	d.Submit = "Check"
	chain := strings.Join([]string{
		fmt.Sprint(v.Who.TenantID), v.Tenant, cmp.Or(d.Value("trail"), "events"), d.Value("scope"),
	}, " ")
	kept := strings.ToLower(strings.Join(strings.Fields(d.Value("kept")), ""))
	sent := d.Sent("limit", "1000", "kept", kept)
	if kept != "" {
		seq, _, _ := strings.Cut(kept, ":")
		d.Seal, _ = strconv.ParseInt(seq, 10, 64) // the API rejects anything that is not a number
		d.From = d.Seal + 1
	} else if d.Since = p.verifiedUpTo.of(chain); d.Since != nil && d.Value("from_seq") == "" {
		sent.Set("kept", d.Since.mark())
		d.From = d.Since.Seq + 1
	}
	if from, err := strconv.ParseInt(d.Value("from_seq"), 10, 64); err == nil {
		d.From, d.Since = from, nil
	}
	res, err := p.kit.Client.VerifyAuditWithResponse(v.Context(), &client.VerifyAuditParams{}, web.AsQuery(sent))
	if err != nil {
		return nil, err
	}
	if d.Result, err = web.Got(res.JSON200, res.ApplicationProblemJSONDefault); err != nil {
		return nil, err
	}
	switch head := d.Result.Head; {
	case !d.Result.Ok && d.Seal == 0:
		p.verifiedUpTo.forget(chain) // so that the next visit checks everything
	case d.Result.Ok && head != nil:
		p.verifiedUpTo.advance(chain, d.From, verified{head.Seq, head.Hash, v.Now})
	}
	to := url.Values{}
	for _, name := range []string{"trail", "scope"} {
		if value := d.Value(name); value != "" {
			to.Set(name, value)
		}
	}
	if next := d.Result.NextSeq; next != nil && d.Result.Ok {
		to.Set("from_seq", strconv.FormatInt(*next, 10))
		d.Next = "?" + to.Encode()
	}
	if to.Set("from_seq", "1"); d.From > 1 {
		d.Again = "?" + to.Encode()
	}
	return &web.Page{Template: "audit-verify", Title: "Audit", Nav: "Audit", Data: &d}, nil
}
