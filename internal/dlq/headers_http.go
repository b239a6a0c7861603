package dlq

import (
	"fmt"
	"mime"
	"net/url"
	"regexp"
	"strings"

	"github.com/skald-saga/skald/internal/fault"
)

// Headers that carry a record's key, headers and metadata to an HTTP target.
// Percent-encoding escapes every byte except A-Z, a-z, 0-9, "-", ".", "_" and "~" as
// %XX, so that decoding returns the exact bytes.
const (
	HTTPKey      = "X-Dlq-Key"      // percent-encoded; absent if there is no key
	HTTPHeader   = "X-Dlq-Header"   // name=value of one header, both percent-encoded; without = if it has no value
	HTTPWithheld = "X-Dlq-Withheld" // the percent-encoded name of one header with credentials that was not sent
)

// MaxHTTPHeaders is the maximum total size of the key and headers in a request, as sent. Servers
// accept 8 KiB to 64 KiB in total.
const MaxHTTPHeaders = 32 << 10

// CarriedOverHTTP is the part of a record's key and headers that a request carries, in the
// record's order.
type CarriedOverHTTP struct {
	Headers     []Header // to be added unchanged; names may repeat
	ContentType string   // the record's own, "" if it has no valid one
	// Withheld names headers that contain credentials and are not sent because the target is on a
	// host other than the letter's own; they are listed in HTTPWithheld. Dropped names headers
	// about earlier redrives and the failure, whose content is sent in another way.
	Withheld, Dropped []string
}

// CarryOverHTTP returns the HTTP headers that carry everything in a content except the payload to
// an HTTP target. own means that the target is on the letter's own host, so that it may receive
// credentials. keep lists the headers that the policy keeps although they are dropped by default
// (Left). Fault: Invalid with a field at /headers if key and headers take more than MaxHTTPHeaders.
//
// A header keeps its name if no server on the way would change or interpret it. For this, every
// header with that name, in any case, must have a name of letters, digits and hyphens without a
// meaning in HTTP, and a value of printable ASCII. All others are sent as HTTPHeader.
func CarryOverHTTP(c Content, own bool, keep ...string) (CarriedOverHTTP, error) {
	var out CarriedOverHTTP
	left := LeftOf(c.Headers, keep)
	if c.Key != nil {
		out.Headers = append(out.Headers, Header{Name: HTTPKey, Value: []byte(percent(string(c.Key)))})
	}
	plainly, times := map[string]bool{}, map[string]int{}
	for _, h := range c.Headers {
		name := strings.ToLower(h.Name)
		times[name]++
		before, known := plainly[name]
		plainly[name] = (before || !known) && ownName.MatchString(name) && !meansSomething(name) && h.Value != nil &&
			ownValue.Match(h.Value)
	}
	trace, media := out.decided(c.Headers, times)
	for _, h := range c.Headers {
		name := strings.ToLower(h.Name)
		switch {
		case left.Out(name):
			out.Dropped = append(out.Dropped, h.Name)
		case name == headerTrace && trace, name == headerType && media:
		case !own && secret(name):
			out.Withheld = append(out.Withheld, h.Name)
			out.Headers = append(out.Headers, Header{Name: HTTPWithheld, Value: []byte(percent(h.Name))})
		case plainly[name]:
			out.Headers = append(out.Headers, h)
		default:
			pair := percent(h.Name)
			if h.Value != nil {
				pair += "=" + percent(string(h.Value))
			}
			out.Headers = append(out.Headers, Header{Name: HTTPHeader, Value: []byte(pair)})
		}
	}
	size := 0
	for _, h := range out.Headers {
		size += len(h.Name) + len(": \r\n") + len(h.Value)
	}
	if size > MaxHTTPHeaders {
		return out, fault.New(fault.Invalid, CodeInvalid, "the key and headers take %d bytes of an HTTP request; the limit is %d", size, MaxHTTPHeaders).
			With(fault.Field{Pointer: "/headers", Code: "too_long", Message: fmt.Sprintf("take %d bytes of an HTTP request, including the key; the limit is %d", size, MaxHTTPHeaders)})
	}
	return out, nil
}

const (
	headerTrace = "traceparent"
	headerType  = "content-type"
)

// decided returns the headers that set properties of the request: the last well-formed traceparent
// and the last well-formed content-type. trace and media are true if it is the only such header, so
// that it need not be sent again.
func (out *CarriedOverHTTP) decided(headers []Header, times map[string]int) (trace, media bool) {
	parent := ""
	for _, h := range headers {
		switch strings.ToLower(h.Name) {
		case headerTrace:
			if traceparent.Match(h.Value) {
				parent = string(h.Value)
			}
		case headerType:
			if media := cleanType(string(h.Value)); media != "" {
				out.ContentType = media
			}
		}
	}
	if parent != "" {
		out.Headers = append(out.Headers, Header{Name: headerTrace, Value: []byte(parent)})
	}
	return parent != "" && times[headerTrace] == 1, out.ContentType != "" && times[headerType] == 1
}

func cleanType(s string) string {
	media, params, err := mime.ParseMediaType(s)
	if err != nil {
		return ""
	}
	return mime.FormatMediaType(media, params)
}

// CarryOverHTTP returns what the request of a drive carries. Fault: as above.
func (d *Drive) CarryOverHTTP() (CarriedOverHTTP, error) {
	return CarryOverHTTP(d.Send, d.SameHost(&d.To), d.KeepHeaders...)
}

// SameHost reports whether a URL is on the host of the letter's own target, the only host that
// receives credentials from its headers.
func (l *Letter) SameHost(to *Target) bool {
	if l.Target.Kind != ToHTTP || to.Kind != ToHTTP {
		return false
	}
	mine, err := url.Parse(l.Target.URL)
	if err != nil {
		return false
	}
	there, err := url.Parse(to.URL)
	return err == nil && strings.EqualFold(mine.Scheme, there.Scheme) && strings.EqualFold(mine.Host, there.Host) &&
		mine.Host != ""
}

var (
	traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	// Proxies silently drop names with other characters. Where names become variables, _ and -
	// become the same character, so that x_dlq_key could be mistaken for Skald's header.
	ownName  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	ownValue = regexp.MustCompile(`^([!-~]([ -~]*[!-~])?)?$`)
)

// meaningful are names that servers and proxies act on, or by which targets identify the caller;
// meaningfulBegins are prefixes of such names.
var (
	meaningful = words(`host connection keep-alive te trailer trailers upgrade expect date via forwarded from origin
		referer range user-agent transfer-encoding max-forwards pragma cache-control early-data priority http2-settings
		alt-used idempotency-key traceparent accept accept-charset accept-encoding accept-language
		x-real-ip x-client-ip x-cluster-client-ip true-client-ip cf-connecting-ip
		x-http-method x-http-method-override x-method-override x-rewrite-url x-url-scheme x-ssl-client-cert front-end-https`)
	meaningfulBegins = []string{
		ownPrefix, "content-", "proxy-", "sec-", "if-", "access-control-", "x-forwarded-", "x-original-", "x-envoy-",
		"x-amzn-", "x-saga-", "x-skald-",
	}
)

func meansSomething(name string) bool {
	if meaningful[name] {
		return true
	}
	for _, p := range meaningfulBegins {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// secretWords are words in the names of headers that contain credentials.
var secretWords = []string{
	"authorization", "authenticate", "cookie", "password", "passwd", "secret", "token", "apikey", "api-key",
	"credential", "private-key",
}

var hyphens = strings.NewReplacer("_", "-", ".", "-")

// secret reports whether a header is likely to contain credentials.
func secret(name string) bool {
	name = hyphens.Replace(name)
	for _, w := range secretWords {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// percent encodes all but the unreserved characters of RFC 3986.
func percent(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
