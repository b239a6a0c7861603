package logstore

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"io"
	"os"
)

// inMemory is how much of a compressed log is kept in memory, in bytes.
const inMemory = 4 << 20

// spool holds a compressed log until its checksum, and thus its name, is known. It is kept in
// memory, or in a file if it is large.
type spool struct {
	create func() (*os.File, error)
	memory bytes.Buffer
	file   *os.File // nil: the whole log is in memory
	hash   hash.Hash
	size   int64
}

func newSpool(create func() (*os.File, error)) *spool {
	return &spool{create: create, hash: sha256.New()}
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.memory.Len()+len(p) > inMemory {
		file, err := s.create()
		if err != nil {
			return 0, err
		}
		s.file = file
		if _, err := file.Write(s.memory.Bytes()); err != nil {
			return 0, err
		}
		s.memory = bytes.Buffer{}
	}
	var n int
	var err error
	if s.file != nil {
		n, err = s.file.Write(p)
	} else {
		n, err = s.memory.Write(p)
	}
	s.hash.Write(p[:n])
	s.size += int64(n)
	return n, err
}

func (s *spool) sum() [sha256.Size]byte { return [sha256.Size]byte(s.hash.Sum(nil)) }

// reader returns a reader that reads from the beginning.
func (s *spool) reader() *io.SectionReader {
	if s.file != nil {
		return io.NewSectionReader(s.file, 0, s.size)
	}
	return io.NewSectionReader(bytes.NewReader(s.memory.Bytes()), 0, s.size)
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}
