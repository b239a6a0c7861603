// Package conformance contains the test vectors in this folder, which define how a participant of
// sagas must behave, and their types. README.md describes the format.
package conformance

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
)

//go:embed *.json
var files embed.FS

// format is the version of the files that this package can read.
const format = 1

// Vector is a sequence of calls, the right answers, and the number of effects.
type Vector struct {
	Name        string               `json:"name"`
	Rule        string               `json:"rule"`
	Why         string               `json:"why"`
	Certify     bool                 `json:"certify"`
	Library     bool                 `json:"library"`
	Secrets     []string             `json:"secrets"`
	Participant map[string][]Outcome `json:"participant"`
	Calls       []Call               `json:"calls"`
	Effects     map[string]int       `json:"effects"` // by key; nil if only Net matters
	Net         map[string]int       `json:"net"`     // executes minus compensates, by saga and step
	Reports     []Report             `json:"reports"` // those that have arrived, in any order; nil means any
}

// Report is what a participant sends to a callback.
type Report struct {
	To     string                     `json:"to"` // the outcome, as the callback spells it
	Result string                     `json:"result"`
	Output json.RawMessage            `json:"output"`
	Error  map[string]json.RawMessage `json:"error"` // members that it must have
}

// Outcome is what the business function does in one invocation.
type Outcome struct {
	Outcome      string          `json:"outcome"` // done, refused, not_applied, fail, later
	Output       json.RawMessage `json:"output"`
	Returns      string          `json:"returns"` // "nothing": done without output
	Status       int             `json:"status"`
	Code         string          `json:"code"`
	Message      string          `json:"message"`
	Effect       bool            `json:"effect"` // refused, not_applied or later, but after an effect
	RetryAfterMS int             `json:"retry_after_ms"`
	SlowMS       int             `json:"slow_ms"`
	Held         bool            `json:"held"` // until the next call that is not cut has arrived
}

// Call is one request, several identical requests at the same moment, or the end of the work of a
// call.
type Call struct {
	Saga     string                     `json:"saga"`
	Tenant   string                     `json:"tenant"`
	Step     string                     `json:"step"`
	Action   string                     `json:"action"`
	Run      int                        `json:"run"`
	Attempt  int                        `json:"attempt"`
	Fence    int                        `json:"fence"`
	Payload  json.RawMessage            `json:"payload"`
	Headers  map[string]string          `json:"headers"`
	Members  map[string]json.RawMessage `json:"members"`
	Without  []string                   `json:"without"`
	Body     string                     `json:"body"`
	AtOnce   int                        `json:"at_once"`
	Together string                     `json:"together"`
	Cut      bool                       `json:"cut"`
	Restart  bool                       `json:"restart"`
	Sign     string                     `json:"sign"`
	Callback string                     `json:"callback"` // a word from which a URL is made
	Finish   *Outcome                   `json:"finish"`   // no request: the work of this call ends this way
	Lost     bool                       `json:"lost"`     // the report of Finish is not sent
	Expect   []Answer                   `json:"expect"`
}

// Answer is one of the permitted answers to a call.
type Answer struct {
	Status  int                        `json:"status"`
	SameAs  int                        `json:"same_as"` // the number of an earlier call, from 1
	Body    map[string]json.RawMessage `json:"body"`
	Headers map[string]string          `json:"headers"`
}

// Load returns all vectors, in the order of the file names, with all defaults filled in.
func Load() ([]Vector, error) {
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		return nil, err
	}
	var all []Vector
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		vectors, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, vectors...)
	}
	return all, nil
}

func parse(text []byte) ([]Vector, error) {
	var file struct {
		Format  int      `json:"format"`
		Vectors []Vector `json:"vectors"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, err
	}
	if file.Format != format {
		return nil, fmt.Errorf("format %d; this package reads %d", file.Format, format)
	}
	for i := range file.Vectors {
		for k := range file.Vectors[i].Calls {
			file.Vectors[i].Calls[k].defaults()
		}
	}
	return file.Vectors, nil
}

// defaults fills in the values that a call omits.
func (c *Call) defaults() {
	for to, def := range map[*string]string{&c.Saga: "A", &c.Step: "charge", &c.Action: "execute", &c.Sign: "good"} {
		if *to == "" {
			*to = def
		}
	}
	for _, n := range []*int{&c.Run, &c.Attempt, &c.Fence, &c.AtOnce} {
		if *n == 0 {
			*n = 1
		}
	}
	if c.Payload == nil {
		c.Payload = json.RawMessage(`{"amount":5}`)
	}
	if c.Expect == nil {
		c.Expect = []Answer{{Status: 200}}
	}
}

// Key returns the Idempotency-Key of the call, with the vector's letters for the saga and the
// tenant.
func (c *Call) Key() string {
	key := c.Saga + "/" + c.Step + "/" + c.Action
	if c.Tenant != "" {
		key = c.Tenant + "/" + key
	}
	if c.Run > 1 {
		key += fmt.Sprintf("#%d", c.Run)
	}
	return key
}
