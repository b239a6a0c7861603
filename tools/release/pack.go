package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// packed is a file of a package: the content of from, or content.
type packed struct {
	name, from string
	content    []byte
	mode       fs.FileMode
}

func (f packed) read() ([]byte, error) {
	if f.from == "" {
		return f.content, nil
	}
	return os.ReadFile(f.from)
}

// tarGz writes name.tar.gz, whose files are in the folder top and all of the same time and owner.
func tarGz(name, top string, files []packed, at time.Time) error {
	return create(name+".tar.gz", func(w io.Writer) error {
		z := gzip.NewWriter(w)
		if err := writeTar(z, top, files, at); err != nil {
			return err
		}
		return z.Close()
	})
}

func writeTar(w io.Writer, top string, files []packed, at time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		data, err := f.read()
		if err != nil {
			return err
		}
		h := &tar.Header{
			Name: path.Join(top, f.name), Mode: int64(f.mode), Size: int64(len(data)), ModTime: at, Typeflag: tar.TypeReg,
			Format: tar.FormatUSTAR,
		}
		if f.mode.IsDir() {
			h.Name, h.Typeflag, h.Mode = h.Name+"/", tar.TypeDir, int64(f.mode.Perm())
		}
		if f.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if _, err := t.Write(data); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return t.Close()
}

// create writes a whole file.
func create(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// below returns the files of a folder, by name.
func below(dir string) (files []packed, err error) {
	err = filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, at)
		files = append(files, packed{name: filepath.ToSlash(name), from: at, mode: 0o644})
		return err
	})
	return files, err
}

// checksums writes the SHA-256 of every file of the release in the form that sha256sum -c reads, and removes what was
// only needed to make them.
func (r release) checksums(context.Context) error {
	if err := os.RemoveAll(r.path(".programs")); err != nil {
		return err
	}
	files, err := below(r.dist)
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b packed) int { return strings.Compare(a.name, b.name) })
	var lines strings.Builder
	for _, f := range files {
		data, err := f.read()
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&lines, "%s  %s\n", hex.EncodeToString(sum[:]), f.name)
	}
	return os.WriteFile(r.path("SHA256SUMS"), []byte(lines.String()), 0o644)
}
