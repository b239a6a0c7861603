package demo

import (
	"context"
	"fmt"
)

// fillParticipants registers services by name, with a workflow that maps requests and answers, and
// holds one of the services so that calls to it wait.
func (f *filler) fillParticipants(ctx context.Context) error {
	for _, name := range []string{"customs", "haulier"} {
		settings := object{"base_url": f.services.url + "/" + name}
		if err := f.call(ctx, "PUT", "/participants/"+name, settings, nil); err != nil {
			return err
		}
	}
	call := func(participant, path string, body object) object {
		return object{"http": object{"participant": participant, "path": path, "body": body}}
	}
	steps := []object{
		{
			"name": "declare", "when": "payload.value > 150",
			"action": call("customs", "/declare", object{"order": "${payload.order}", "value": "${payload.value}"}),
			"answer": object{"output": object{"reference": "${body.reference}"}},
			"compensation": call("customs", "/withdraw",
				object{"reference": "${output.reference}"}),
		},
		{
			"name": "load", "pivot": true, "compensation": "none",
			"action": call("haulier", "/load", object{"order": "${payload.order}", "key": "${call.key}"}),
		},
		{"name": "notify", "action": f.calls("mail/send"), "compensation": "none"},
	}
	workflow := object{"name": "import", "steps": steps, "retry": steady}
	if err := f.post(ctx, "/workflows", workflow); err != nil {
		return err
	}
	if err := f.imports(ctx, 0, 90, 400); err != nil { // the first import needs no declaration
		return err
	}
	if err := f.rest(ctx, "import", "completed", 2); err != nil {
		return err
	}
	reason := object{"reason": "customs has announced maintenance until the evening"}
	if err := f.post(ctx, "/participants/customs/hold", reason); err != nil {
		return err
	}
	return f.imports(ctx, 2, 800, 1200)
}

// imports starts sagas that import goods of the given values.
func (f *filler) imports(ctx context.Context, first int, values ...float64) error {
	for i, value := range values {
		key := fmt.Sprintf("import-%d", first+i)
		err := f.shop.post(ctx, "/sagas", object{"workflow_name": "import", "business_key": key,
			"payload": object{"order": key, "value": value}})
		if err != nil {
			return err
		}
	}
	return nil
}
