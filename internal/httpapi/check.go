package httpapi

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/strictjson"
)

// checkQuery rejects unknown query parameters, repeated parameters that the operation accepts only
// once, and text that PostgreSQL cannot store.
func (s *server) checkQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rt := s.contract.routeOf(r.Context(), r.Method)
		if r.URL.RawQuery != "" {
			if err := rt.checkQuery(r.URL.RawQuery); err != nil {
				s.fail(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (rt *route) checkQuery(raw string) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return fault.New(fault.Malformed, httpkit.CodeInvalidParameter, "the query string is malformed").Because(err)
	}
	var fields []fault.Field
	code := httpkit.CodeUnknownParameter
	for _, name := range slices.Sorted(maps.Keys(query)) {
		repeatable, known := rt.query[name]
		field := fault.Field{Parameter: name}
		switch {
		case !known:
			field.Code, field.Message = "unknown", "is not a parameter of this operation"
		case !repeatable && len(query[name]) > 1:
			field.Code, field.Message = "repeated", "must not be repeated"
		case slices.ContainsFunc(query[name], httpkit.Unstorable):
			field.Code, field.Message = "invalid", "contains a NUL character or is not UTF-8"
		default:
			continue
		}
		if known {
			code = httpkit.CodeInvalidParameter
		}
		fields = append(fields, field)
	}
	if fields == nil {
		return nil
	}
	return httpkit.ParameterFault(code, fields...)
}

// checkBody reads the body within its limit, converts JSON to canonical form and checks it against
// the contract. Subsequent handlers get only the canonical form.
func (s *server) checkBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			next.ServeHTTP(w, r) // a GET has no body; if the client sends one, it is not read
			return
		}
		if err := plain(w, r); err != nil {
			s.fail(w, r, err)
			return
		}
		rt := s.contract.routeOf(r.Context(), r.Method)
		if rt.stream {
			s.stream(next, rt, w, r)
			return
		}
		body, err := s.readBody(rt, w, r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		httpkit.RequestOf(r.Context()).Body = body
		r.Body, r.ContentLength = http.NoBody, int64(len(body))
		if len(body) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}

// plain returns nil for a body without a Content-Encoding. Fault: Unsupported.
func plain(w http.ResponseWriter, r *http.Request) error {
	encodings := r.Header["Content-Encoding"]
	if len(encodings) == 0 || r.ContentLength == 0 || len(encodings) == 1 && strings.EqualFold(encodings[0], "identity") {
		return nil
	}
	w.Header().Set("Accept-Encoding", "identity") // RFC 9110, 12.5.3
	return fault.New(fault.Unsupported, httpkit.CodeEncoding, "the Content-Encoding %q is not supported: send the body without one", httpkit.Clip(encodings[0]))
}

// stream passes on a body that the handler reads as it arrives. The body may have any size as long
// as data keeps arriving.
func (s *server) stream(next http.Handler, rt *route, w http.ResponseWriter, r *http.Request) {
	media := mediaType(r.Header.Get("Content-Type"))
	if !slices.Contains(rt.media, media) {
		s.fail(w, r, wrongMedia(rt))
		return
	}
	r.Header.Set("Content-Type", media)
	if body, ok := r.Body.(*paced); ok {
		body.streamed(max(s.cfg.Limits.StreamWrite, s.cfg.Limits.RequestTimeout))
	}
	next.ServeHTTP(w, r)
}

func wrongMedia(rt *route) error {
	return fault.New(fault.Unsupported, httpkit.CodeMediaType, "the Content-Type must be %s, in UTF-8",
		strings.Join(slices.Sorted(slices.Values(rt.media)), " or "))
}

func (s *server) readBody(rt *route, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if rt.media == nil {
		return nil, noBody(w, r)
	}
	data, err := readAll(w, r, rt.bodyLimit)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 && !rt.bodyRequired {
		return nil, nil
	}
	media := mediaType(r.Header.Get("Content-Type"))
	if !slices.Contains(rt.media, media) {
		return nil, wrongMedia(rt)
	}
	if media == mergePatch {
		media = httpkit.MediaJSON
	}
	r.Header.Set("Content-Type", media) // in the spelling that the generated code expects
	if media != httpkit.MediaJSON {
		if !utf8.Valid(data) {
			return nil, fault.New(fault.Malformed, httpkit.CodeInvalidUTF8, "the body is not UTF-8")
		}
		return data, nil
	}
	return s.readJSON(rt, httpkit.RequestOf(r.Context()), data)
}

// readJSON returns the canonical form of a valid JSON body. A list whose items are judged
// separately is split only if the body as a whole is invalid, so that there is no extra cost for
// valid bodies.
func (s *server) readJSON(rt *route, req *httpkit.Request, data []byte) ([]byte, error) {
	limits := strictjson.Limits{MaxDepth: s.cfg.Limits.MaxJSONDepth}
	canonical, adjusted, why := httpkit.Read(rt.body, data, limits)
	if why == nil {
		req.Adjusted = adjusted
		return canonical, nil
	}
	if rt.list == nil {
		if why.Code == httpkit.CodeSchema {
			return nil, httpkit.SchemaFault(rt.allMistakes(canonical, why.Fields)...)
		}
		return nil, why
	}
	judged, items, around, ok := rt.list.Judge(data, s.cfg.Limits.MaxJSONDepth)
	if !ok {
		return nil, why
	}
	if canonical, _, why = httpkit.Read(rt.list.Body, judged, limits); why != nil {
		return nil, why
	}
	req.Items, req.Around, req.Raw = items, around, data
	return canonical, nil
}

// noBody checks a request to an operation that takes no body. It returns nil if there is no body or
// an empty object, which many clients send with every POST. Faults: Invalid, or the fault of
// reading the body.
func noBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	data, err := readAll(w, r, mostOfNothing)
	switch said := bytes.TrimSpace(data); {
	case fault.KindOf(err) == fault.TooLarge, err == nil && len(said) > 0 && !emptyObject(said):
		return httpkit.SchemaFault(fault.Field{Code: "unexpected", Message: "this operation takes no body: omit it, or send {}"})
	default:
		return err
	}
}

// mostOfNothing is the maximum number of bytes that are read of a body that should be empty.
const mostOfNothing = 1 << 10

func emptyObject(text []byte) bool {
	return text[0] == '{' && text[len(text)-1] == '}' && len(bytes.TrimSpace(text[1:len(text)-1])) == 0
}

// readAtOnce is the largest body for which memory is allocated according to Content-Length; for
// larger ones the buffer grows while reading.
const readAtOnce = 64 << 10

func readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close") // the rest is not read
		return nil, tooLarge(limit)
	}
	body := http.MaxBytesReader(w.(*response).ResponseWriter, r.Body, limit)
	var data []byte
	var err error
	if r.ContentLength >= 0 && r.ContentLength <= readAtOnce {
		data = make([]byte, r.ContentLength)
		_, err = io.ReadFull(body, data)
	} else {
		data, err = io.ReadAll(body)
	}
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge(limit)
	case fault.KindOf(err) == fault.Slow:
		return nil, err
	case err != nil:
		return nil, fault.New(fault.Malformed, httpkit.CodeUnreadable, "the body ended before it was complete: send it again").Because(err)
	}
	return data, nil
}

func tooLarge(limit int64) error {
	return fault.New(fault.TooLarge, fault.CodeTooLarge, "the body has more than %d bytes", limit)
}

// mediaType returns the media type of a Content-Type in the spelling of the contract, or "" if it
// is invalid or its charset is not UTF-8.
func mediaType(header string) string {
	if header == httpkit.MediaJSON {
		return header
	}
	media, params, err := mime.ParseMediaType(header)
	if err != nil || params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
		return ""
	}
	if media == "text/yaml" || media == "application/x-yaml" {
		return httpkit.MediaYAML
	}
	return media
}
