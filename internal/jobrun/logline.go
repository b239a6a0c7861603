package jobrun

import (
	"time"
	"unicode/utf8"
)

// LogLine is a log chunk as one line of NDJSON, in API responses and in the log store.
type LogLine struct {
	Attempt int       `json:"attempt"`
	Seq     int       `json:"seq"`
	At      time.Time `json:"at"`
	Stream  string    `json:"stream"`
	Chunk   *string   `json:"chunk,omitempty"`        // the content, if it is UTF-8
	Bytes   []byte    `json:"chunk_base64,omitempty"` // the content otherwise
}

// LineOf returns a chunk as a line.
func LineOf(c *LogChunk) LogLine {
	l := LogLine{Attempt: c.Attempt, Seq: c.Seq, At: c.At.UTC(), Stream: c.Stream}
	if utf8.Valid(c.Body) {
		l.Chunk = new(string(c.Body))
	} else {
		l.Bytes = c.Body
	}
	return l
}

// Content is the inverse of LineOf.
func (l *LogLine) Content() LogChunk {
	c := LogChunk{LogPosition: LogPosition{l.Attempt, l.Seq}, At: l.At, Stream: l.Stream, Body: l.Bytes}
	if l.Chunk != nil {
		c.Body = []byte(*l.Chunk)
	}
	return c
}
