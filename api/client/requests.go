package client

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/oapi-codegen/runtime"
)

// requested collects the parameters of a request. The first that cannot be sent is its error.
type requested struct {
	asked  []string // of the query, encoded
	header http.Header
	err    error
}

func (r *requested) styled(style string, explode bool, name string, value any, o runtime.StyleParamOptions) string {
	text, err := runtime.StyleParamWithOptions(style, explode, name, value, o)
	if err != nil && r.err == nil {
		r.err = err
	}
	return text
}

// path returns a parameter as a part of the URL's path.
func (r *requested) path(name string, value any, kind, format string) string {
	return r.styled("simple", false, name, value, runtime.StyleParamOptions{
		ParamLocation: runtime.ParamLocationPath, Type: kind, Format: format,
	})
}

// query adds a parameter to the URL's query.
func (r *requested) query(name string, value any, kind, format string) {
	r.asked = append(r.asked, r.styled("form", true, name, value, runtime.StyleParamOptions{
		ParamLocation: runtime.ParamLocationQuery, Type: kind, Format: format,
	}))
}

// head adds a parameter as a header.
func (r *requested) head(name string, value any, kind, format string) {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(name, r.styled("simple", false, name, value, runtime.StyleParamOptions{
		ParamLocation: runtime.ParamLocationHeader, Type: kind, Format: format,
	}))
}

// request returns the request for a path of a server, whose URL ends in a slash.
func (r *requested) request(method, server, path, contentType string, body io.Reader) (*http.Request, error) {
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

// answer is where the body of an answer with a status is decoded into; status 0: with any other.
type answer struct {
	status int
	into   any
}

// answered reads the body of an answer, and decodes it if it is JSON.
func answered(rsp *http.Response, body *[]byte, answers ...answer) (err error) {
	*body, err = io.ReadAll(rsp.Body)
	_ = rsp.Body.Close()
	if err != nil || rsp.StatusCode == http.StatusNoContent || rsp.StatusCode == http.StatusNotModified ||
		!strings.Contains(rsp.Header.Get("Content-Type"), "json") {
		return err
	}
	for _, a := range answers {
		if a.status == rsp.StatusCode {
			return json.Unmarshal(*body, a.into)
		}
	}
	for _, a := range answers {
		if a.status == 0 {
			return json.Unmarshal(*body, a.into)
		}
	}
	return nil
}
