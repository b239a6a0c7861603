package httpkit

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"github.com/skald-saga/skald/api"
)

type baseKey struct{}

// WithBase returns a context for requests that come through a proxy that adds base to the paths of
// this server.
func WithBase(ctx context.Context, base string) context.Context {
	return context.WithValue(ctx, baseKey{}, base)
}

// Published returns a response with links that its client can follow, that is, links that begin
// with the base of its request. Links are the members link and links of the contract. A body
// belongs to one response, so it is modified in place.
func Published(ctx context.Context, out api.Response) api.Response {
	base, _ := ctx.Value(baseKey{}).(string)
	a, plain := out.(Answer)
	if base == "" || !plain || a.Body == nil {
		return out
	}
	v := reflect.New(reflect.TypeOf(a.Body)).Elem()
	v.Set(reflect.ValueOf(a.Body))
	publish(v, base)
	a.Body = v.Interface()
	return a
}

// NextPage returns the path and query of the page after the one in the response to r, in a form
// that the client can follow, "" if there is no next page.
func NextPage(r *http.Request) string {
	req := RequestOf(r.Context())
	if req.Next == "" {
		return ""
	}
	base, _ := r.Context().Value(baseKey{}).(string)
	query := req.Values()
	query.Del("page") // page excludes a cursor
	query.Set("cursor", req.Next)
	return base + r.URL.EscapedPath() + "?" + query.Encode()
}

func publish(v reflect.Value, base string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			publish(v.Elem(), base)
		}
	case reflect.Slice:
		for i := range v.Len() {
			publish(v.Index(i), base)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			of, f := v.Type().Field(i), v.Field(i)
			name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
			switch {
			case !of.IsExported() && !of.Anonymous:
			case name == "link" && f.Type() == anyText:
				f.SetString(below(base, f.String()))
			case name == "links" && f.Kind() == reflect.Map && f.Type().Elem() == anyText:
				for links := f.MapRange(); links.Next(); {
					f.SetMapIndex(links.Key(), reflect.ValueOf(below(base, links.Value().String())))
				}
			default:
				publish(f, base)
			}
		}
	}
}

func below(base, path string) string {
	if strings.HasPrefix(path, "/") {
		return base + path
	}
	return path
}
