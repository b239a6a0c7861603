package fault

// Problem is a code of the API, as docs/problems.md explains it.
type Problem struct {
	Code    string
	Title   string // of every problem document with the code
	Meaning string
	Status  []int
}

// Catalogue is the problems of one package, in the order of docs/problems.md.
type Catalogue []Problem

// Add adds a problem and returns its code, so that no code is without its title.
func (c *Catalogue) Add(code, title, meaning string, status ...int) string {
	*c = append(*c, Problem{Code: code, Title: title, Meaning: meaning, Status: status})
	return code
}

// Problems are those of any package.
var Problems Catalogue

// Their codes, stable and part of the API.
var (
	CodeTooLarge = Problems.Add("REQ_TOO_LARGE", "Request too large",
		"The body is larger than the server's limit, or a definition larger than the limit for definitions. The "+
			"server stopped reading it.", 413)
	CodeUnavailable = Problems.Add("SYS_UNAVAILABLE", "Unavailable",
		"The server cannot do this right now, usually because the database is unreachable. Retry after the "+
			"time given in Retry-After. A write may have taken effect: with an Idempotency-Key or your own saga_id, a "+
			"retry is safe.", 503)
)
