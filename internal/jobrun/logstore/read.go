package logstore

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
)

// reader decompresses a stored log and compares the checksum at the end.
type reader struct {
	stored io.ReadCloser
	raw    *meter
	zip    *gzip.Reader // nil until the first Read
	want   [sha256.Size]byte
	skip   int64
	end    error // once it is set, every Read returns it
}

func newReader(ctx context.Context, stored io.ReadCloser, want [sha256.Size]byte, skip int64) *reader {
	return &reader{stored: stored, raw: &meter{from: within{ctx, stored}, hash: sha256.New()}, want: want, skip: skip}
}

// meter hashes the bytes that it passes on, and distinguishes read errors from errors in the
// content.
type meter struct {
	from io.Reader
	hash hash.Hash
	err  error // error of the source, except io.EOF
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	m.hash.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		m.err = err
	}
	return n, err
}

func (r *reader) Read(p []byte) (n int, err error) {
	if r.end != nil {
		return 0, r.end
	}
	if err = r.begin(); err == nil {
		n, err = r.zip.Read(p)
	}
	if err != nil {
		r.end = r.settle(err)
	}
	if n > 0 {
		return n, nil
	}
	return 0, r.end
}

func (r *reader) begin() (err error) {
	if r.zip == nil {
		if r.zip, err = gzip.NewReader(r.raw); err != nil {
			return err
		}
		r.zip.Multistream(false)
	}
	if r.skip > 0 {
		var skipped int64
		skipped, err = io.CopyN(io.Discard, r.zip, r.skip)
		r.skip -= skipped
	}
	return err
}

// settle converts the decompressor's last error. The result is io.EOF only if all stored bytes have
// been read and the checksum matches.
func (r *reader) settle(err error) error {
	if errors.Is(err, io.EOF) && r.raw.err == nil {
		_, err = io.Copy(io.Discard, r.raw)
	}
	switch {
	case r.raw.err != nil:
		return fmt.Errorf("read a stored log: %w", r.raw.err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case [sha256.Size]byte(r.raw.hash.Sum(nil)) != r.want:
		return fmt.Errorf("%w: its checksum does not match", ErrCorrupt)
	}
	return io.EOF
}

func (r *reader) Close() error { return r.stored.Close() }

// within ends a copy when the context ends.
type within struct {
	ctx context.Context
	r   io.Reader
}

func (w within) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.r.Read(p)
}
