package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/oapi-codegen/runtime"
)

// requested collects the parameters of a request. Its error is the first encoding failure.
type requested struct {
	asked  []string // encoded parameters of the query
	header http.Header
	err    error
}

// given returns the value that a parameter points to, or false if the pointer is nil, so that the
// parameter is not sent.
func given(value any) (any, bool) {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return v.Elem().Interface(), true
		}
	case reflect.Slice, reflect.Map:
		return value, !v.IsNil()
	}
	return nil, false
}

func (r *requested) styled(style string, explode bool, name string, value any, o runtime.StyleParamOptions) string {
	text, err := runtime.StyleParamWithOptions(style, explode, name, value, o)
	if err != nil && r.err == nil {
		r.err = err
	}
	return text
}

// path encodes a parameter as a segment of the URL's path.
func (r *requested) path(name string, value any, kind, format string) string {
	return r.styled("simple", false, name, value, runtime.StyleParamOptions{
		ParamLocation: runtime.ParamLocationPath, Type: kind, Format: format,
	})
}

// query adds a parameter to the URL's query, if it is given.
func (r *requested) query(name string, value any, kind, format string) {
	value, ok := given(value)
	if !ok {
		return
	}
	r.asked = append(r.asked, r.styled("form", true, name, value, runtime.StyleParamOptions{
		ParamLocation: runtime.ParamLocationQuery, Type: kind, Format: format,
	}))
}

// head adds a parameter as a header, if it is given.
func (r *requested) head(name string, value any, kind, format string) {
	value, ok := given(value)
	if !ok {
		return
	}
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(name, r.styled("simple", false, name, value, runtime.StyleParamOptions{
		ParamLocation: runtime.ParamLocationHeader, Type: kind, Format: format,
	}))
}

// request returns the request for a path on a server whose URL ends in a slash.
func (r *requested) request(method, server, path, contentType string, body io.Reader) (*http.Request, error) {
	if unsent, ok := body.(*unsendable); ok {
		return nil, unsent.err
	}
	if r.err != nil {
		return nil, r.err
	}
	base, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	to, err := base.Parse("." + path)
	if err != nil {
		return nil, err
	}
	to.RawQuery = strings.Join(r.asked, "&")
	req, err := http.NewRequest(method, to.String(), body)
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	return req, nil
}

// unsendable stands for a body that cannot be encoded.
type unsendable struct {
	io.Reader
	err error
}

func asJSON(body any) io.Reader {
	text, err := json.Marshal(body)
	if err != nil {
		return &unsendable{err: err}
	}
	return bytes.NewReader(text)
}

// send sends a request unless building it failed.
func (c *Client) send(
	ctx context.Context, req *http.Request, err error, editors []RequestEditorFn,
) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	req = req.WithContext(ctx)
	if err := c.applyEditors(ctx, req, editors); err != nil {
		return nil, err
	}
	return c.Client.Do(req)
}

// Answer is the part of every response apart from its decoded body.
type Answer struct {
	Body         []byte
	HTTPResponse *http.Response
}

// Status returns HTTPResponse.Status.
func (a Answer) Status() string {
	if a.HTTPResponse != nil {
		return a.HTTPResponse.Status
	}
	return http.StatusText(0)
}

// StatusCode returns HTTPResponse.StatusCode.
func (a Answer) StatusCode() int {
	if a.HTTPResponse != nil {
		return a.HTTPResponse.StatusCode
	}
	return 0
}

// decoded returns a function that decodes the response to a request, if there was one.
func decoded[T any](parse func(*http.Response) (*T, error)) func(*http.Response, error) (*T, error) {
	return func(rsp *http.Response, err error) (*T, error) {
		if err != nil {
			return nil, err
		}
		return parse(rsp)
	}
}

// unless returns only the error if there is one.
func unless[T any](a *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}

// answer is the destination for the decoded body of a response with the given status; status 0
// means any other.
type answer struct {
	status int
	into   any
}

// read reads the body of a response and decodes it if it is JSON.
func (a *Answer) read(rsp *http.Response, answers ...answer) (err error) {
	a.HTTPResponse = rsp
	a.Body, err = io.ReadAll(rsp.Body)
	_ = rsp.Body.Close()
	if err != nil || rsp.StatusCode == http.StatusNoContent || rsp.StatusCode == http.StatusNotModified ||
		!strings.Contains(rsp.Header.Get("Content-Type"), "json") {
		return err
	}
	for _, status := range []int{rsp.StatusCode, 0} {
		for _, to := range answers {
			if to.status == status {
				return json.Unmarshal(a.Body, to.into)
			}
		}
	}
	return nil
}

// Place names the location of a mistake: a header, a parameter, or a place in the body.
func (f ProblemField) Place() string { return cmp.Or(f.Header, f.Parameter, f.Pointer) }
