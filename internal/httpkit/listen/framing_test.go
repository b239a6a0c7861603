package listen

import (
	"strings"
	"testing"
)

func TestTwoContentLengthsAreFoundHoweverTheBytesArrive(t *testing.T) {
	const (
		get     = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		sized   = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 47\r\n\r\n" + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"
		chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"13;ext=1\r\nContent-Length: 1\r\n\r\n0\r\nContent-Length: 3\r\n\r\n"
		both  = "POST / HTTP/1.1\r\nHost: a\r\ncontent-length:5\r\nTRANSFER-ENCODING: Chunked\r\n\r\n0\r\n\r\n"
		bare  = "POST / HTTP/1.1\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\n\n"
		wrong = "POST / HTTP/1.1\r\nContent-Length: five\r\n\r\n"
	)
	long := "GET / HTTP/1.1\r\nX-Long: " + strings.Repeat("x", 3*maxLine) + "\r\n\r\n"
	for _, tt := range []struct {
		name, sent string
		want       bool
	}{
		{"neither", get + get, false},
		{"one in a head, both in a body", sized + get, false},
		{"chunked, with a Content-Length in a chunk and in the trailer", chunked + get + chunked, false},
		{"both", both, true},
		{"both, with bare line feeds", bare, true},
		{"both, behind others", get + sized + "\r\n" + long + chunked + both, true},
		{"both, behind what cannot be followed", wrong + both, false},
	} {
		for _, size := range []int{1, 2, 3, 7, 64, 4096} {
			var f framing
			got := false
			for rest := tt.sent; rest != ""; {
				n := min(size, len(rest))
				got = f.follow([]byte(rest[:n])) || got
				rest = rest[n:]
			}
			if got != tt.want {
				t.Errorf("%s, %d bytes at a time: %v, want %v", tt.name, size, got, tt.want)
			}
		}
	}
}

func BenchmarkFollowing(b *testing.B) {
	request := []byte("POST /api/v1/sagas HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: Go-http-client/1.1\r\n" +
		"Content-Length: 200\r\nContent-Type: application/json\r\nIdempotency-Key: 12345678\r\nAccept-Encoding: gzip\r\n\r\n" +
		strings.Repeat("x", 200))
	var f framing
	for b.Loop() {
		f.follow(request)
	}
}
