package expression

import (
	"errors"
	"strings"

	"cel.dev/cel-go/common/types"
)

// expr is one compiled `${…}`: a path or a computation.
type expr struct {
	source   string
	path     path
	computed *program // nil for a path
	// plain means that the source was a valid reference before expressions existed, with the same
	// meaning.
	plain bool
}

func compileExpr(source string, p *Place) (*expr, error) {
	found, isPath, err := parsePath(source, p)
	if isPath {
		return &expr{source: source, path: found, plain: !strings.Contains(source, "[") &&
			(found.root == "payload" || found.root == "steps")}, err
	}
	if p.Site == Standing {
		return nil, errStanding
	}
	computed, err := compile(source, p)
	if err != nil && p.Lenient {
		if old, ok := oldPath(source, p); ok {
			return &expr{source: source, path: old, plain: true}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return &expr{source: source, computed: computed}, nil
}

// oldPath parses a reference whose members may contain any characters.
func oldPath(source string, p *Place) (path, bool) {
	found := path{root: "payload"}
	rest, ok := strings.CutPrefix(source, "payload.")
	if !ok {
		if rest, ok = strings.CutPrefix(source, "steps."); !ok {
			return path{}, false
		}
		found.root, found.step = "steps", longest(rest, p.Known)
		if found.step == "" {
			return path{}, false
		}
		if rest, ok = strings.CutPrefix(rest[len(found.step):], "."); !ok {
			return found, rest == ""
		}
	}
	for name := range strings.SplitSeq(rest, ".") {
		found.parts = append(found.parts, partOf(name))
	}
	return found, true
}

func (x *expr) failure(pointer string, err error) *Failure {
	return &Failure{Pointer: pointer, Source: x.source, Why: err.Error(), Missing: errors.Is(err, errMissing)}
}

// append appends the value as canonical JSON.
func (x *expr) append(b []byte, e *Evaluation) ([]byte, error) {
	switch {
	case x.computed != nil:
		v, err := x.computed.eval(e)
		if err != nil {
			return b, err
		}
		return appendJSON(b, v)
	case x.path.root == "secrets":
		b = append(b, '"')
		b = e.secret(b, x.path.step)
		return append(b, '"'), nil
	}
	raw, ok := e.raw(&x.path)
	if !ok {
		return b, errMissing
	}
	return append(b, raw...), nil
}

// secret appends the placeholder of a secret.
func (e *Evaluation) secret(b []byte, name string) []byte {
	mark := Placeholder(name)
	e.Secrets = append(e.Secrets, Secret{Name: name, At: len(b), Len: len(mark)})
	return append(b, mark...)
}

var errNotText = errors.New("only a string, a number, true or false is allowed here")

// text returns the value of a string, number or bool as text.
func (x *expr) text(e *Evaluation) (string, error) {
	if x.computed == nil {
		raw, ok := e.raw(&x.path)
		if !ok {
			return "", errMissing
		}
		switch raw[0] {
		case '"':
			s, ok := textOf(raw)
			if !ok {
				return "", errNotText
			}
			return s, nil
		case '{', '[', 'n':
			return "", errNotText
		}
		return string(raw), nil
	}
	v, err := x.computed.eval(e)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case types.String:
		_, err := appendScalar(nil, v) // whether it can be sent
		return string(v), err
	case types.Int, types.Uint, types.Double, types.Bool:
		b, err := appendScalar(nil, v)
		return string(b), err
	case types.Timestamp:
		p, err := plain(v, 0)
		s, _ := p.(string)
		return s, err
	}
	return "", errNotText
}

// appendInside appends the value inside a JSON string.
func (x *expr) appendInside(b []byte, e *Evaluation) ([]byte, error) {
	if x.computed == nil && x.path.root == "secrets" {
		return e.secret(b, x.path.step), nil
	}
	if x.computed == nil {
		raw, ok := e.raw(&x.path)
		if !ok {
			return b, errMissing
		}
		switch raw[0] {
		case '"':
			return append(b, raw[1:len(raw)-1]...), nil
		case '{', '[', 'n':
			return b, errNotText
		}
		return append(b, raw...), nil
	}
	s, err := x.text(e)
	if err != nil {
		return b, err
	}
	quoted, err := appendScalar(nil, types.String(s))
	if err != nil {
		return b, err
	}
	return append(b, quoted[1:len(quoted)-1]...), nil
}
