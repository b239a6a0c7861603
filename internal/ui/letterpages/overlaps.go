package letterpages

import (
	"bytes"
	"context"
	"encoding/json"
	"html/template"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// overlapping describes which letters of a new redrive also belong to others, and which redrive
// takes them.
func (p *pages) overlapping(all []client.RedriveOverlap) (said []template.HTML) {
	for i := range all {
		o := &all[i]
		letters, are := "%s letters", " are"
		if o.Letters == 1 {
			letters, are = "%s letter", " is"
		}
		said = append(said, web.Sentence(letters, web.Count(o.Letters))+plain(are+" also in ")+p.redriveLink(o.RedriveID)+
			", which "+inState(o)+": "+takes(o)+".")
	}
	return said
}

func (p *pages) redriveLink(id uuid.UUID) template.HTML {
	return p.kit.Anchor("/ui/redrives/"+id.String(), web.Sentence("redrive %s", web.Short(id)))
}

// begins reports whether another redrive has not begun yet, but will begin without an approval.
func begins(o *client.RedriveOverlap) bool {
	return o.State == client.RedriveStatePENDING && !o.Skipped
}

func inState(o *client.RedriveOverlap) template.HTML {
	switch {
	case o.State == client.RedriveStateAWAITINGAPPROVAL:
		return "awaits approval"
	case begins(o) && o.ScheduledFor == nil:
		return "is about to begin"
	case begins(o):
		return "begins at " + plain(o.ScheduledFor.UTC().Format("2006-01-02 15:04:05")) + " UTC"
	}
	return "is " + plain(web.BadgeOf(o.State).Word)
}

// takes describes what happens to the letters that a new redrive and another one have in common.
func takes(o *client.RedriveOverlap) template.HTML {
	switch {
	case o.Skipped:
		return "it holds them, so this redrive skips them"
	case o.State == client.RedriveStateAWAITINGAPPROVAL:
		return "this redrive does not wait for the approval and takes them first"
	case begins(o):
		return "whichever begins first takes them"
	}
	return "this redrive takes them, and the other one skips them"
}

// alsoIn describes which redrives contain a letter that is to be retried separately. They then skip
// the letter.
func (p *pages) alsoIn(ctx context.Context, id uuid.UUID) (said []template.HTML, err error) {
	body, err := json.Marshal(map[string]any{"action": "retry", "ids": []uuid.UUID{id}, "dry_run": true})
	if err != nil {
		return nil, err
	}
	res, err := p.kit.Client.CreateRedriveWithBodyWithResponse(ctx, &client.CreateRedriveParams{}, web.JSON,
		bytes.NewReader(body), web.ChangesNothing)
	if err != nil || res.JSON200 == nil {
		return nil, err // if there is no response, the retry itself reports what is wrong
	}
	for i := range res.JSON200.Overlaps {
		o := &res.JSON200.Overlaps[i]
		then := template.HTML("that redrive then skips it")
		if o.State == client.RedriveStateAWAITINGAPPROVAL {
			then = "a retry now does not wait for the approval"
		}
		said = append(said, "The letter is also in "+p.redriveLink(o.RedriveID)+", which "+inState(o)+": "+then+".")
	}
	return said, nil
}
