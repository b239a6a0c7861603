package fault

// Problem is an error code of the API, as explained in docs/problems.md.
type Problem struct {
	Code    string
	Title   string // title of every problem document with this code
	Meaning string
	Status  []int
}

// Catalogue lists the problems of one package, in the order of docs/problems.md.
type Catalogue []Problem

// Add adds a problem and returns its code, so that every code has a title.
func (c *Catalogue) Add(code, title, meaning string, status ...int) string {
	*c = append(*c, Problem{Code: code, Title: title, Meaning: meaning, Status: status})
	return code
}

// Problems are the problems that any package may use.
var Problems Catalogue

// Their codes, stable and part of the API.
var (
	CodeTooLarge = Problems.Add("REQ_TOO_LARGE", "Request too large",
		"The body exceeds the server's limit, or the definition in it exceeds the limit for definitions. The "+
			"server stopped reading it.", 413)
	CodeUnavailable = Problems.Add("SYS_UNAVAILABLE", "Unavailable",
		"The server cannot do this right now, usually because the database is unreachable. Retry after the "+
			"time given in Retry-After. A write may have taken effect: with an Idempotency-Key or your own saga_id, a "+
			"retry is safe.", 503)
)
