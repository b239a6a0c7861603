package jobapi_test

import (
	"net/http"
	"testing"

	"github.com/skald-saga/skald/internal/httpapi"
)

// A definition that might execute the arguments of its runs is refused, however it is written. A
// stored definition of that kind can still be stopped.
func TestDefinitionsThatMightExecuteArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	e := newJobEdge(t, func(c *httpapi.Config) { c.Jobs.ArgsAllow = []string{"/opt/report"} })
	const (
		head = `"name":"x","type":"manual","command_name":"shell","default_args":`
		bad  = `{"argv":["/bin/sh","-c","--","{args}"]}`
		good = `{"argv":["/opt/report","{args}"]}`
		path = definitions + "/x"
	)
	refused := func(method, path, body string) {
		t.Helper()
		p := e.Send(method, path, body).Wants(http.StatusUnprocessableEntity, "JOB_INVALID")
		if len(p.Errors) != 1 || p.Errors[0].Pointer != "/default_args/argv/3" || p.Errors[0].Code != "placeholder" {
			t.Errorf("%s: %+v", method, p.Errors)
		}
	}
	refused("POST", definitions, `{`+head+bad+`}`)
	e.Send("POST", definitions, `{`+head+good+`}`).Definition(http.StatusCreated)
	refused("PUT", path, `{`+head+bad+`}`)
	refused("PATCH", path, `{"default_args":`+bad+`}`)
	e.Send("PATCH", path, `{"command_name":"own","default_args":`+bad+`}`).Definition(http.StatusOK)
	refused("PATCH", path, `{"command_name":"shell"}`)
	e.ask(`WITH old AS (UPDATE jobs.job_definitions SET spec = jsonb_set(spec, '{command_name}', '"shell"') RETURNING 1) SELECT count(*) FROM old`)
	e.Send("PATCH", path, `{"enabled":false}`).Definition(http.StatusOK)
	refused("PATCH", path, `{"description":"words"}`)
	e.Send("PATCH", path, `{"default_args":`+good+`}`).Definition(http.StatusOK)
}
