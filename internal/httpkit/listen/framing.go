package listen

import (
	"bytes"
	"strconv"
	"strings"
)

// framing follows the bytes that a client sends over an HTTP/1 connection from request to request,
// just closely enough to find the request heads. It stops at anything that it cannot parse, because
// net/http rejects such requests anyway.
type framing struct {
	at     place
	left   int64  // remaining bytes of the body or chunk
	line   []byte // the current line so far, at most maxLine bytes
	lines  int    // number of lines of this head so far
	length int64  // Content-Length of this head
	sized  bool   // this head has a Content-Length
	chunks bool   // this head has Transfer-Encoding: chunked
}

type place int

const (
	inHead place = iota
	inBody
	inChunkSize
	inChunk // the data of a chunk and the line end after it
	inTrailer
	lost
)

// maxLine is far above the length of any line that contains a length; longer lines are truncated.
const maxLine = 256

// follow parses the next bytes and reports whether they complete a head with both lengths.
func (f *framing) follow(p []byte) (both bool) {
	for len(p) > 0 && f.at != lost {
		if f.at == inBody || f.at == inChunk {
			n := min(f.left, int64(len(p)))
			p, f.left = p[n:], f.left-n
			if f.left == 0 && f.at == inBody {
				f.begin()
			} else if f.left == 0 {
				f.at = inChunkSize
			}
			continue
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			f.keep(p)
			return both
		}
		line := p[:end]
		if len(f.line) > 0 {
			f.keep(line)
			line = f.line
		}
		if f.take(bytes.TrimSuffix(line, []byte("\r"))) {
			both = true
		}
		f.line, p = f.line[:0], p[end+1:]
	}
	return both
}

func (f *framing) keep(p []byte) { f.line = append(f.line, p[:min(len(p), maxLine-len(f.line))]...) }

func (f *framing) begin() { *f = framing{line: f.line[:0]} }

// take parses a complete line, without its line end, and reports whether it completes a head with
// both lengths.
func (f *framing) take(line []byte) (both bool) {
	switch {
	case f.at == inChunkSize:
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 62)
		switch {
		case err != nil || n < 0:
			f.at = lost
		case n == 0:
			f.at = inTrailer
		default:
			f.at, f.left = inChunk, n+int64(len("\r\n"))
		}
	case f.at == inTrailer:
		if len(line) == 0 {
			f.begin()
		}
	case len(line) > 0:
		f.lines++
		f.header(line)
	case f.lines > 0:
		return f.endHead()
	}
	return false
}

// header reads the two headers that determine the length of the body.
func (f *framing) header(line []byte) {
	switch line[0] {
	default:
		return
	case 'c', 'C', 't', 'T':
	}
	name, value, _ := strings.Cut(string(line), ":")
	value = strings.TrimSpace(value)
	switch {
	case strings.EqualFold(name, "Content-Length"):
		n, err := strconv.ParseInt(value, 10, 63)
		if f.sized = true; err != nil || n < 0 {
			f.at = lost
		}
		f.length = n
	case strings.EqualFold(name, "Transfer-Encoding"):
		f.chunks = true
	}
}

func (f *framing) endHead() (both bool) {
	both = f.sized && f.chunks
	switch {
	case f.chunks:
		f.at, f.line = inChunkSize, f.line[:0]
	case f.length > 0:
		f.at, f.left = inBody, f.length
	default:
		f.begin()
	}
	return both
}
