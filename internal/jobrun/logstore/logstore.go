// Package logstore stores the logs of job runs outside of the database, after they have been there
// for log_retention_days_db (J-39 to J-41). The store is a directory or a bucket of any
// S3-compatible server.
//
// An object is one gzip file. This package chooses its name, which contains the SHA-256 of the
// stored bytes. Therefore two different logs never share a name, writing the same log again changes
// nothing, and a reader can detect damage.
package logstore

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/skald-saga/skald/internal/fault"
)

// Object is a stored log. Size and SHA256 are those of the stored, compressed bytes.
type Object struct {
	Ref    string // the argument of Get, Verify and Delete; it is the same in every store
	Size   int64
	SHA256 [sha256.Size]byte
}

// Store stores objects. It is safe for concurrent use, even by several processes on one directory
// or bucket.
type Store struct{ objects backend }

// backend stores bytes. Keys are references that have been checked.
type backend interface {
	// put returns when the content is durable under key. It replaces an existing object atomically.
	put(ctx context.Context, key string, content *spool) error
	// open returns the stored bytes, or the fault NotFound.
	open(ctx context.Context, key string) (io.ReadCloser, error)
	// remove deletes an object, if it exists.
	remove(ctx context.Context, key string) error
	// clear deletes all objects whose keys begin with prefix, which has a directory.
	clear(ctx context.Context, prefix string) error
	// temp creates a file for a log that is too large for memory. If the system permits, the file's
	// name is removed immediately, so that a crash leaves nothing behind.
	temp() (*os.File, error)
	close() error
}

// Open returns the store behind a URL:
//
//	file:///var/lib/skald/logs
//	s3://bucket/prefix?endpoint=https://s3.internal:9000&region=eu-1&path_style=true
//
// Without endpoint, AWS is used and region is required; with endpoint, region may be omitted.
// path_style determines where the bucket's name appears; if it is omitted, that depends on the
// endpoint. An empty URL is an error, because logs stay in the database if offloading is off. Open
// creates a missing directory and checks that it is writable; it does not contact S3.
func Open(_ context.Context, rawURL string, o Options) (*Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("logstore: the URL cannot be parsed") // err would quote the URL
	}
	var objects backend
	switch u.Scheme {
	case "file":
		objects, err = openFiles(u)
	case "s3":
		objects, err = openS3(u, o)
	default:
		err = errors.New("the URL must begin with file:// or s3://")
	}
	if err != nil {
		return nil, fmt.Errorf("logstore: %w", err)
	}
	return &Store{objects}, nil
}

// Close releases the store's resources. Readers remain usable.
func (s *Store) Close() error { return s.objects.close() }

// Put stores all of r, compressed, then reads it back and compares. When it returns no error, the
// log is durable and complete (S20). After an error the outcome is unknown, and the call may be
// repeated: the same content results in the same Object and overwrites anything that an earlier
// attempt left.
func (s *Store) Put(ctx context.Context, name Name, r io.Reader) (Object, error) {
	if err := name.check(); err != nil {
		return Object{}, err
	}
	content := newSpool(s.objects.temp)
	defer content.close()
	if err := compress(content, within{ctx, r}); err != nil {
		return Object{}, fmt.Errorf("compress a log: %w", err)
	}
	o := Object{Size: content.size, SHA256: content.sum()}
	o.Ref = name.ref(o.SHA256)
	if err := s.objects.put(ctx, o.Ref, content); err != nil {
		return Object{}, fmt.Errorf("store a log: %w", err)
	}
	if err := s.Verify(ctx, o.Ref, o.SHA256, o.Size); err != nil {
		return Object{}, fmt.Errorf("read a log back: %w", err)
	}
	return o, nil
}

// compress returns equal bytes for equal content. It feeds the compressor in blocks of one size,
// however r returns its bytes, and the header contains no time.
func compress(to io.Writer, r io.Reader) error {
	zip := gzip.NewWriter(to)
	blocks := bufio.NewWriterSize(zip, 64<<10)
	_, err := blocks.ReadFrom(r)
	return errors.Join(err, blocks.Flush(), zip.Close())
}

// Get reads a log, uncompressed, from offset (in bytes of the log) to its end. By the end, all
// stored bytes have been compared with the checksum in the name: a log that is damaged, truncated
// or swapped for another ends with ErrCorrupt instead of io.EOF. An offset beyond the end returns no bytes.
// Skipping to an offset costs as much as reading up to it.
//
// Faults: NotFound (CodeGone), and Invalid for a negative offset. An invalid reference is reported
// as ErrRef. Any other error, including an error while reading, is an outage.
func (s *Store) Get(ctx context.Context, ref string, offset int64) (io.ReadCloser, error) {
	sum, err := s.sumOf(ref)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, fault.New(fault.Invalid, "JOB_LOG_OFFSET", "the offset must not be negative")
	}
	stored, err := s.objects.open(ctx, ref)
	if err != nil {
		return nil, err
	}
	return newReader(ctx, stored, sum, offset), nil
}

// Verify reads all stored bytes and compares them with sum, size, and the checksum in the
// reference. It returns nil, ErrCorrupt, ErrRef, the fault NotFound, or an outage.
func (s *Store) Verify(ctx context.Context, ref string, sum [sha256.Size]byte, size int64) error {
	named, err := s.sumOf(ref)
	if err != nil {
		return err
	}
	if named != sum {
		return fmt.Errorf("%w: the expected checksum differs from the one in its reference", ErrCorrupt)
	}
	stored, err := s.objects.open(ctx, ref)
	if err != nil {
		return err
	}
	defer func() { _ = stored.Close() }()
	hash := sha256.New()
	n, err := io.Copy(hash, within{ctx, stored})
	switch {
	case err != nil:
		return fmt.Errorf("read a stored log: %w", err)
	case n != size:
		return fmt.Errorf("%w: %d bytes instead of %d", ErrCorrupt, n, size)
	case [sha256.Size]byte(hash.Sum(nil)) != sum:
		return fmt.Errorf("%w: its checksum does not match", ErrCorrupt)
	}
	return nil
}

// Delete removes a log, if it exists.
func (s *Store) Delete(ctx context.Context, ref string) error {
	if _, err := s.sumOf(ref); err != nil {
		return err
	}
	return s.objects.remove(ctx, ref)
}

// Clear removes all logs of a run, of any attempt and content. This includes uploads to which no
// run refers because of a crash. The attempt of name does not matter.
func (s *Store) Clear(ctx context.Context, name Name) error {
	name.Attempt = 1
	if err := name.check(); err != nil {
		return err
	}
	return s.objects.clear(ctx, name.prefix())
}

func (s *Store) sumOf(ref string) (sum [sha256.Size]byte, err error) {
	_, sum, err = parse(ref)
	return sum, err
}
