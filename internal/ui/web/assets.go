package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed assets templates
var files embed.FS

//go:embed layout.html
var layout string

// asset is a file that pages refer to. Its URL contains the hash of its content, so that browsers
// may cache it forever.
type asset struct {
	name, media string // name: with the hash
	plain, gz   []byte
}

// assets are the files in the folder assets, by their names in the source and by the names used in
// pages.
type assets struct{ bySource, byName map[string]*asset }

// loadAssets reads the folder assets. The style sheets are combined into one: style.css, followed
// by those of the subjects in the order of their names.
func loadAssets() (assets, error) {
	all := assets{bySource: map[string]*asset{}, byName: map[string]*asset{}}
	sheets, err := fs.Glob(files, "assets/*.css")
	if err != nil {
		return all, err
	}
	sheet, err := files.ReadFile("assets/style.css")
	if err != nil {
		return all, err
	}
	for _, name := range sheets {
		if name == "assets/style.css" {
			continue
		}
		more, err := files.ReadFile(name)
		if err != nil {
			return all, err
		}
		sheet = append(append(sheet, '\n'), more...)
	}
	all.add("style.css", sheet)
	entries, err := files.ReadDir("assets")
	if err != nil {
		return all, err
	}
	for _, e := range entries {
		if path.Ext(e.Name()) == ".css" {
			continue
		}
		content, err := files.ReadFile("assets/" + e.Name())
		if err != nil {
			return all, err
		}
		all.add(e.Name(), content)
	}
	return all, nil
}

func (all assets) add(source string, content []byte) {
	sum := sha256.Sum256(content)
	base, ext, _ := strings.Cut(source, ".")
	a := &asset{
		name:  fmt.Sprintf("%s.%s.%s", base, hex.EncodeToString(sum[:6]), ext),
		media: mime.TypeByExtension(path.Ext(source)), plain: content,
	}
	var packed bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
	_, _ = zip.Write(content)                                    // writing to a buffer cannot fail
	_ = zip.Close()
	a.gz = packed.Bytes()
	all.bySource[source], all.byName[a.name] = a, a
}

func (all assets) serve(w http.ResponseWriter, r *http.Request) {
	a := all.byName[path.Base(r.URL.Path)]
	if a == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.media)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := a.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.gz
	}
	_, _ = w.Write(body) // an error means that the browser has disconnected
}
